"""Unmodified libraries choose mpsx as their default device. Tests skip libraries that are not installed.

Libraries that `.[test]` does not install have the marker `sweep`. To install them, use `pip install '.[sweep]'` or
'.[sweep-vision]'.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch


def _module(name: str) -> object:
    return pytest.importorskip(name, reason=f"{name} is not installed", exc_type=ImportError)


def _keras() -> object:
    return _module("keras").layers.Dense(1)(torch.ones(1, 2)).device


def _tianshou() -> object:
    return _module("tianshou.highlevel.experiment").ExperimentConfig().device


def _spacy() -> object:
    _module("spacy").require_gpu()
    try:
        return importlib.import_module("thinc.util").get_torch_default_device()
    finally:
        importlib.import_module("spacy").require_cpu()


# For each library, a function that returns its default device.
DEFAULT: dict[str, Callable[[], object]] = {
    "ignite": lambda: _module("ignite.distributed").device(),
    "torch_geometric": lambda: _module("torch_geometric").device("auto"),
}
SWEEP: dict[str, Callable[[], object]] = {
    "keras": _keras,
    "keras, gpu": lambda: _module("keras").device("gpu:0").__enter__(),
    "diffusers": lambda: _module("diffusers.utils.torch_utils").get_device(),
    "diffusers, testing": lambda: _module("diffusers.utils.testing_utils").torch_device,
    "fastai": lambda: _module("fastai.torch_core").default_device(),
    "ultralytics": lambda: _module("ultralytics.utils.torch_utils").select_device("", verbose=False),
    "stable_baselines3": lambda: _module("stable_baselines3.common.utils").get_device("auto"),
    "torchrl": lambda: _module("torchrl._utils").get_available_device(),
    "torchrl, samplers": lambda: _module("torchrl.data.replay_buffers.utils")._auto_device(),
    "tianshou": _tianshou,
    "skrl": lambda: _module("skrl").config.torch.device,
    "d3rlpy": lambda: _module("d3rlpy.base")._process_device(True),
    "flair": lambda: _module("flair").device,
    "stanza": lambda: _module("stanza.models.common.utils").default_device(),
    "setfit": lambda: _module("setfit.modeling").SetFitHead(3)._device,
    "spacy": _spacy,
    "kornia": lambda: _module("kornia.core.utils").get_cuda_or_mps_device_if_available(),
    "mmengine": lambda: _module("mmengine.device").get_device(),
    "pytorch_tabnet": lambda: _module("pytorch_tabnet.utils").define_device("auto"),
    "gluonts": lambda: _module("gluonts.torch.util").resolve_device("auto"),
    "pykeen": lambda: _module("pykeen.utils").resolve_device(),
    "sbi": lambda: _module("sbi.utils.torchutils").process_device("gpu"),
    "metric learning": lambda: _module("pytorch_metric_learning.utils.common_functions").use_cuda_if_available(),
    "speechbrain": lambda: _module("speechbrain.utils.distributed").infer_device(),
}


@pytest.fixture(autouse=True)
def keras_on_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    monkeypatch.setenv("YOLO_OFFLINE", "true")


@pytest.mark.parametrize("library", DEFAULT)
def test_default_device(library: str) -> None:
    assert torch.device(str(DEFAULT[library]())).type == "mpsx"


@pytest.mark.sweep
@pytest.mark.parametrize("library", SWEEP)
def test_default_device_of_a_large_library(library: str) -> None:
    assert torch.device(str(SWEEP[library]())).type == "mpsx"


@pytest.mark.sweep
def test_cpu_on_request() -> None:
    assert _module("stable_baselines3.common.utils").get_device("cpu").type == "cpu"
    assert _module("torch_geometric").device("cpu").type == "cpu"
    assert _module("fastai.torch_core").default_device(False).type == "cpu"
    assert _module("fastai.torch_core").default_device(True).type == "mpsx"


@pytest.mark.parametrize("device", ["mpsx", "mpsx:0", torch.device("mpsx")], ids=str)
@pytest.mark.parametrize("scaler", [False, True])
def test_ignite_mixed_precision(device: object, scaler: bool) -> None:
    engine = _module("ignite.engine")
    model = torch.nn.Linear(4, 2).to("mpsx")
    types = set()
    model.register_forward_hook(lambda module, inputs, out: types.add(out.dtype))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    data = [(torch.randn(8, 4), torch.randn(8, 2))] * 4
    loss = lambda out, y: torch.nn.functional.mse_loss(out.float(), y)  # noqa: E731
    trainer = engine.create_supervised_trainer(model, optimizer, loss, device, amp_mode="amp", scaler=scaler)
    losses = []
    trainer.add_event_handler(engine.Events.ITERATION_COMPLETED, lambda e: losses.append(e.state.output))
    trainer.run(data, max_epochs=2)
    assert losses[-1] < losses[0]
    if scaler:
        assert engine._check_arg(False, False, "amp", True)[1]._device == "mpsx"
    engine.create_supervised_evaluator(model, {}, device, amp_mode="amp").run(data)
    assert types == {torch.get_autocast_dtype("mpsx")}


@pytest.mark.sweep
@pytest.mark.parametrize("device", ["mpsx", "mpsx:0", None])
def test_lm_eval(device: str | None, tmp_path: object) -> None:
    hflm = _module("lm_eval.models.huggingface").HFLM
    tokenizers, transformers = _module("tokenizers"), _module("transformers")
    config = transformers.GPT2Config(vocab_size=8, n_embd=8, n_layer=1, n_head=1)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path)
    word_tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, "a"))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=word_tokenizer, unk_token="a", eos_token="a")
    tokenizer.save_pretrained(tmp_path)
    model = hflm(pretrained=str(tmp_path), device=device or "")
    assert model.device.type == "mpsx"
    assert next(model.model.parameters()).device.type == "mpsx"
    request = SimpleNamespace(args=("a a", " a a"))
    [(log_likelihood, _)] = model.loglikelihood([request], disable_tqdm=True)
    assert log_likelihood <= 0


@pytest.mark.sweep
@pytest.mark.parametrize("device", ["mpsx", "mpsx:0", torch.device("mpsx"), ""], ids=str)
def test_ultralytics(device: object) -> None:
    numpy, ultralytics = _module("numpy"), _module("ultralytics")
    model = ultralytics.YOLO("yolov8n.yaml", verbose=False)
    image = numpy.zeros((64, 64, 3), "uint8")
    assert model.predict(image, device=device, imgsz=64, verbose=False)[0].boxes.data.device.type == "mpsx"
    with pytest.raises(ValueError, match="device"):
        _module("ultralytics.utils.torch_utils").select_device("mpsx:9", verbose=False)


@pytest.mark.sweep
def test_fastai_training() -> None:
    test_utils, fp16 = _module("fastai.test_utils"), _module("fastai.callback.fp16")
    types = set()
    learner = test_utils.synth_learner(n_trn=4, cuda=True, cbs=fp16.MixedPrecision())
    learner.model.register_forward_hook(lambda module, inputs, out: types.add((out.device.type, out.dtype)))
    learner.fit(1)
    assert {device for device, _ in types} == {"mpsx"}
    states = _module("fastai.torch_core").get_random_states()
    drawn = torch.randn(3, device="mpsx")
    _module("fastai.torch_core").set_random_states(**states)
    assert torch.equal(torch.randn(3, device="mpsx"), drawn)


@pytest.mark.sweep
def test_stable_baselines3_training() -> None:
    algorithm = _module("stable_baselines3").PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=32, n_epochs=1)
    assert algorithm.device.type == "mpsx"
    algorithm.learn(64)
    assert {p.device.type for p in algorithm.policy.parameters()} == {"mpsx"}


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["AdamWFp8", "AdamW8bit", "AdamW4bit"])
def test_torchao_optimizer(name: str) -> None:
    torchao = _module("torchao.optim")
    results = []
    for device in ("cpu", "mpsx"):
        torch.manual_seed(0)
        model = torch.nn.Linear(256, 256).to(device)
        optimizer = getattr(torchao, name)(model.parameters(), 1e-3)
        for _ in range(2):
            torch.manual_seed(1)
            model(torch.randn(4, 256).to(device)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        results.append(model.weight.detach().cpu())
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)
