"""Unmodified Hugging Face transformers: Trainer, pipelines, device maps and caches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")


class Glue(torch.utils.data.Dataset):
    """Random sentence pairs. The label is 1 if both sentences start with the same token."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, Any]:
        generator = torch.Generator().manual_seed(index)
        tokens = torch.randint(5, 60, (14,), generator=generator)
        label = index % 2
        tokens[7] = tokens[0] if label else 61
        return {"input_ids": tokens, "attention_mask": torch.ones(14, dtype=torch.long), "labels": label,
                "token_type_ids": (torch.arange(14) >= 7).long()}  # fmt: skip


def classifier() -> Any:
    torch.manual_seed(3)
    config = transformers.BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                                     intermediate_size=64, num_labels=2)  # fmt: skip
    return transformers.BertForSequenceClassification(config)


def trainer(path: Path, **options: Any) -> Any:
    settings = {"max_steps": 8, "per_device_train_batch_size": 8, "learning_rate": 1e-3, "logging_steps": 1,
                "report_to": [], "disable_tqdm": True, "save_strategy": "no", "seed": 7} | options  # fmt: skip
    arguments = transformers.TrainingArguments(output_dir=str(path), **settings)
    return transformers.Trainer(classifier(), arguments, train_dataset=Glue(), eval_dataset=Glue())


def losses(run: Any) -> list[float]:
    return [entry["loss"] for entry in run.state.log_history if "loss" in entry]


def test_fine_tuning(tmp_path: Path) -> None:
    run = trainer(tmp_path, max_steps=30)
    assert run.args.device.type == "mpsx" and run.args.n_gpu <= 1
    run.train()
    assert run.model.device.type == "mpsx"
    assert losses(run)[-1] < losses(run)[0]
    on_cpu = trainer(tmp_path, use_cpu=True, max_steps=1)
    assert on_cpu.args.device.type == "cpu"
    on_cpu.train()
    assert losses(on_cpu)[0] == pytest.approx(losses(run)[0], abs=0.2)  # dropout masks differ between devices


def test_losses_equal_the_cpus_without_dropout(tmp_path: Path) -> None:
    runs = []
    for use_cpu in (False, True):
        run = trainer(tmp_path, use_cpu=use_cpu)
        for module in run.model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        run.model.config.attention_probs_dropout_prob = 0.0
        for layer in run.model.bert.encoder.layer:
            layer.attention.self.dropout.p = 0.0
            layer.attention.self.dropout_prob = 0.0
        run.train()
        runs.append(losses(run))
        accelerate.state.AcceleratorState._reset_state(True)
    assert runs[0] == pytest.approx(runs[1], abs=2e-4)


@pytest.mark.parametrize("option", ["bf16", "fp16"])
def test_mixed_precision(tmp_path: Path, option: str) -> None:
    run = trainer(tmp_path, **{option: True, f"{option}_full_eval": True})
    types = set()
    run.model.bert.pooler.dense.register_forward_hook(lambda m, i, out: types.add(out.dtype))
    run.train()
    assert types == {torch.bfloat16 if option == "bf16" else torch.float16}
    assert all(0 < loss < 2 for loss in losses(run))
    assert (run.accelerator.scaler is not None) == (option == "fp16")
    assert run.evaluate()["eval_loss"] > 0
    assert run.model.dtype == (torch.bfloat16 if option == "bf16" else torch.float16)


def test_resume_is_exact(tmp_path: Path) -> None:
    whole = trainer(tmp_path / "whole", save_strategy="steps", save_steps=4)
    whole.train()
    torch.manual_seed(1234)
    resumed = trainer(tmp_path / "resumed")
    resumed.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-4"))
    assert losses(resumed)[-4:] == losses(whole)[-4:]
    state = torch.load(tmp_path / "whole" / "checkpoint-4" / "rng_state.pth", weights_only=False)
    assert "mpsx" in state


def test_memory_metrics(tmp_path: Path) -> None:
    metrics = trainer(tmp_path, skip_memory_metrics=False, max_steps=2).train().metrics
    assert metrics["train_mem_gpu_peaked_delta"] > 0 and "init_mem_gpu_alloc_delta" in metrics


@pytest.mark.sweep
def test_torch_compile(tmp_path: Path) -> None:
    run = trainer(tmp_path, torch_compile=True, max_steps=3)
    run.train()
    assert all(0 < loss < 2 for loss in losses(run))


def gpt() -> Any:
    torch.manual_seed(3)
    config = transformers.GPT2Config(vocab_size=64, n_positions=64, n_embd=32, n_layer=2, n_head=2, bos_token_id=0,
                                     eos_token_id=0, pad_token_id=0)  # fmt: skip
    return transformers.GPT2LMHeadModel(config).eval()


def test_pipeline() -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    vocabulary = {"[PAD]": 0, "[UNK]": 1} | {f"w{i}": i + 2 for i in range(40)}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="[PAD]", unk_token="[UNK]")
    pipe = transformers.pipeline("text-classification", model=classifier(), tokenizer=tokenizer)
    assert pipe.device.type == "mpsx" and pipe.model.device.type == "mpsx"
    assert 0 < pipe("w1 w2 w3")[0]["score"] < 1
    assert transformers.pipeline("text-classification", model=classifier(), tokenizer=tokenizer,
                                 device=-1).device.type == "cpu"  # fmt: skip


@pytest.mark.parametrize("device_map", ["auto", "mpsx", {"": "mpsx:0"}, {"": 0}])
def test_device_map(tmp_path: Path, device_map: Any) -> None:
    model = gpt()
    model.save_pretrained(tmp_path)
    loaded = transformers.GPT2LMHeadModel.from_pretrained(tmp_path, device_map=device_map)
    assert {p.device.type for p in loaded.parameters()} == {"mpsx"}
    x = torch.arange(1, 9)[None]
    torch.testing.assert_close(loaded(x.to("mpsx")).logits.cpu(), model(x).logits, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("cache", ["dynamic", "offloaded", "static", "offloaded_static"])
def test_caches(cache: str) -> None:
    model = gpt()
    x = torch.arange(1, 9)[None]
    expected = model.generate(x, max_new_tokens=8, do_sample=False)
    model.to("mpsx")
    options = {} if "static" not in cache else {"disable_compile": True}
    result = model.generate(x.to("mpsx"), max_new_tokens=8, do_sample=False, cache_implementation=cache, **options)
    assert torch.equal(result.cpu(), expected)


def test_mixture_of_experts() -> None:
    config = transformers.MixtralConfig(vocab_size=64, hidden_size=32, intermediate_size=32, num_hidden_layers=1,
                                        num_attention_heads=2, num_key_value_heads=1, num_local_experts=4,
                                        output_router_logits=True)  # fmt: skip
    torch.manual_seed(0)
    model = transformers.MixtralForCausalLM(config)
    x = torch.arange(1, 17)[None]
    expected = model(x, labels=x).loss
    on_device = model.to("mpsx")(x.to("mpsx"), labels=x.to("mpsx")).loss
    torch.testing.assert_close(on_device.detach().cpu(), expected.detach())
    on_device.backward()


def test_device_argument_of_processors() -> None:
    """Call the validator for `device` directly, because constructing an image processor requires torchvision."""
    from transformers.utils import type_validators

    check = type_validators.device_validator
    check = getattr(check, "__wrapped__", check)
    for device in ("mpsx", "mpsx:0", torch.device("mpsx")):
        check(device)
    with pytest.raises(ValueError, match="must be one of"):
        check("gpu")


def test_trainer_state_is_saved(tmp_path: Path) -> None:
    trainer(tmp_path, max_steps=1, save_strategy="steps", save_steps=1).train()
    assert json.loads((tmp_path / "checkpoint-1" / "trainer_state.json").read_text())["global_step"] == 1


def test_default_loss_does_not_break_the_graph() -> None:
    """transformers warns about the default loss of GPT-2. With fullgraph=True, a graph break would raise."""
    torch._dynamo.reset()
    model, tokens = gpt().to("mpsx"), torch.arange(16, device="mpsx").reshape(2, 8)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(tokens, labels=tokens).loss, model(tokens, labels=tokens).loss)
