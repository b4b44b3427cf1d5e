"""Adapt a language model with LoRA (peft), then generate text from it.

The base model has random weights, because the examples download nothing. To use a real model, replace
`GPT2LMHeadModel(config)` with `AutoModelForCausalLM.from_pretrained(...)`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel

from mpsx.cli.demo.data import standard_library

from .options import parse, show


def main(argv: Sequence[str] | None = None) -> tuple[float, float]:
    """Return the first and the last loss."""
    options = parse(__doc__, argv)
    text = standard_library()
    small = {"n_embd": 64, "n_layer": 2, "n_head": 2}
    config = GPT2Config(vocab_size=len(text.alphabet), n_positions=256, bos_token_id=0, eos_token_id=0,
                        **({} if options.real else small))  # fmt: skip
    lora = LoraConfig(r=8, lora_alpha=16, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM",
                      modules_to_save=["wte"])  # fmt: skip
    model = get_peft_model(GPT2LMHeadModel(config), lora).to(options.device)
    model.print_trainable_parameters()
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), 5e-3)
    steps, losses = options.steps or (500 if options.real else 40), []
    batches = text.batches(8, 128 if options.real else 32, options.seed)
    for step in range(steps):
        x = next(batches)[0].to(options.device)
        loss = model(input_ids=x, labels=x).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        show(step, steps, losses[-1])
    model.eval()
    prompt = text.encode("import ")[None].to(options.device)
    written = model.generate(input_ids=prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=40,
                             do_sample=True, pad_token_id=0)  # fmt: skip
    print(repr(text.decode(written[0].cpu())))
    return losses[0], losses[-1]


if __name__ == "__main__":
    main()
