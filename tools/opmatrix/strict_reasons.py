"""Differences between strict mode and PyTorch's lists, with reasons."""

from __future__ import annotations

# Entries in PyTorch's lists that strict mode does not follow, with reasons. "*" matches every dtype.
UNLIKE_THE_LISTS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("jiterator_2inputs_2outputs", "jiterator_4inputs_with_extra_args", "jiterator_binary",
         "jiterator_binary_return_by_ref", "jiterator_unary"), ("*", "compiles CUDA source")),
    **dict.fromkeys(
        ("nn.functional.max_unpool1d", "nn.functional.max_unpool1dgrad", "nn.functional.max_unpool2d",
         "nn.functional.max_unpool2dgrad", "nn.functional.max_unpool3d", "nn.functional.max_unpool3dgrad"),
        ("bool", "the samples need max_pool, which no device has for bool")),
    **dict.fromkeys(
        ("nn.functional.alpha_dropout", "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d",
         "nn.functional.feature_alpha_dropoutwith_train", "randint"), ("complex64", "no device supports it")),
    **dict.fromkeys(
        ("empty_like", "new_empty", "new_empty_strided", "resize_", "resize_as_", "as_stridedpartial_views"),
        ("complex64", "the values are uninitialized, so PyTorch does not compare them")),
    "bincount": ("*", "works; the listed difference is the dtype of the CPU's result"),
    "log_softmaxwith_dtype": ("*", "the samples for mps ask for bfloat16, which works"),
    "svd_lowrank": ("*", "works with the operators that it is composed of"),
    "masked.median": ("*", "works with the operators that it is composed of"),
    "nn.functional.adaptive_avg_pool1d": ("*", "only sizes that do not divide are rejected; checked separately"),
    "nn.functional.adaptive_avg_pool2d": ("*", "only sizes that do not divide are rejected; checked separately"),
    "nn.functional.max_pool2d": ("bool", "no device supports it"),
    "nn.functional.conv3d": ("complex64", "PyTorch skips conv3d on MPS"),
    "nn.functional.padreplicate_negative": (
        "bool complex64", "PyTorch's lists contradict each other: padreplicate, which calls the same operator, passes"),
    "addmm": (
        "complex64", "PyTorch's lists contradict each other: addmm.decomposed, which calls the same operator, passes"),
    "linalg.matrix_power": ("complex64", "all the operators that it is composed of support complex64"),
}  # fmt: skip
