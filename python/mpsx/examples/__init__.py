"""Example programs. Run one with `python -m mpsx.examples.gpt`. `--real` selects a realistic size, and `--device`
selects the device.

    gpt             train a GPT on text, in the style of nanoGPT
    vit_trainer     fine-tune a vision transformer with Hugging Face's Trainer
    lightning_fit   train a classifier with Lightning
    lora            adapt a language model with LoRA, then generate text
    diffusion       train a denoising diffusion model with an exponential moving average of its weights
    metal_kernel    a custom Metal kernel with a gradient
    ddp             data-parallel training in two processes
    compiled        torch.compile

Each example has a function `main(argv)`, which the tests call. It returns the first and last loss or a different
result.
"""
