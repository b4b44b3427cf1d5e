"""fastai: the default device, mixed precision, random state, and loading models onto a device index."""

from __future__ import annotations

from .rewrite import instead_of_cuda

PATCHES = {
    "fastai.torch_core": (
        instead_of_cuda("default_device"),
        instead_of_cuda("get_random_states", "set_random_states", condition=None),
    ),
    "fastai.callback.fp16": (
        instead_of_cuda("MixedPrecision.before_fit"),
        instead_of_cuda("NonNativeMixedPrecision.before_fit", condition=None),
    ),
    "fastai.learner": (instead_of_cuda("load_model", condition=None),),
}
