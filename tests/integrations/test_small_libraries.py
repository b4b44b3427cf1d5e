"""Unmodified versions of safetensors, peft, sentence-transformers, trl and FlexAttention."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

safetensors = pytest.importorskip("safetensors", reason="safetensors is not installed")


@pytest.mark.parametrize("device", ["mpsx", "mpsx:0", torch.device("mpsx"), 0])
def test_safetensors_load(tmp_path: Path, device: object) -> None:
    from safetensors.torch import load_file, save_file

    tensors = {"a": torch.randn(3, 4), "b": torch.arange(5), "c": torch.randn(2).bfloat16()}
    save_file({name: tensor.to("mpsx") for name, tensor in tensors.items()}, tmp_path / "x.safetensors")
    loaded = load_file(tmp_path / "x.safetensors", device=device)
    assert all(tensor.device.type == "mpsx" for tensor in loaded.values())
    assert all(torch.equal(loaded[name].cpu(), tensor) for name, tensor in tensors.items())
    with safetensors.safe_open(tmp_path / "x.safetensors", framework="pt", device=device) as file:
        assert file.get_tensor("a").device.type == "mpsx"
        assert torch.equal(file.get_slice("a")[1:].cpu(), tensors["a"][1:])


def test_cpu_on_request(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    save_file({"a": torch.ones(2)}, tmp_path / "x.safetensors")
    assert load_file(tmp_path / "x.safetensors")["a"].device.type == "cpu"
    assert load_file(tmp_path / "x.safetensors", device=torch.device("cpu"))["a"].device.type == "cpu"


def test_peft() -> None:
    pytest.importorskip("peft", reason="peft is not installed")
    from peft.utils import infer_device

    assert infer_device() == "mpsx"


def test_sentence_transformers() -> None:
    pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    from sentence_transformers.util.environment import get_device_name

    assert torch.device(get_device_name()).type == "mpsx"


def test_flex_attention() -> None:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    q, k, v = (torch.randn(1, 2, 8, 16) for _ in range(3))
    positions = torch.arange(8)
    bias = -(positions[:, None] - positions).abs().float()
    results = []
    for device in ("cpu", "mpsx"):
        leaves = [t.to(device).detach().requires_grad_() for t in (q, k, v)]
        if device == "cpu":
            out = torch.nn.functional.scaled_dot_product_attention(*leaves, attn_mask=bias)
        else:
            out = flex_attention(*leaves, score_mod=lambda score, b, h, i, j: score - (i - j).abs())
        out.sum().backward()
        results.append([out.detach().cpu(), *(leaf.grad.cpu() for leaf in leaves)])
    torch.testing.assert_close(results[1], results[0])
    with torch.autocast("mpsx", dtype=torch.bfloat16):
        assert flex_attention(*(t.to("mpsx") for t in (q, k, v))).dtype == torch.bfloat16
    mask = create_block_mask(lambda b, h, i, j: i >= j, 1, 1, 8, 8, device="mpsx")
    causal = flex_attention(*(t.to("mpsx") for t in (q, k, v)), block_mask=mask)
    torch.testing.assert_close(causal.cpu(), torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))


@pytest.mark.sweep
def test_trl(tmp_path: Path) -> None:
    trl = pytest.importorskip("trl", reason="trl is not installed")
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    import transformers

    vocabulary = {"[PAD]": 0, "[EOS]": 1, "[UNK]": 2} | {f"w{i}": i + 3 for i in range(40)}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="[PAD]", eos_token="[EOS]")
    config = transformers.LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=32, num_hidden_layers=1,
                                      num_attention_heads=2, eos_token_id=1, pad_token_id=0)  # fmt: skip
    data = datasets.Dataset.from_dict({"text": [f"w{i} w{i + 1} w{i + 2} w{i + 3}" for i in range(32)]})
    settings = trl.SFTConfig(output_dir=str(tmp_path), max_steps=10, report_to=[], logging_steps=1, bf16=True,
                             learning_rate=1e-2, per_device_train_batch_size=8, save_strategy="no")  # fmt: skip
    run = trl.SFTTrainer(transformers.LlamaForCausalLM(config), args=settings, train_dataset=data,
                         processing_class=tokenizer)  # fmt: skip
    run.train()
    losses = [entry["loss"] for entry in run.state.log_history if "loss" in entry]
    assert run.model.device.type == "mpsx" and losses[-1] < losses[0]
