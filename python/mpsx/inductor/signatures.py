"""Signatures of ATen operators whose rows need scalar arguments, or whose row depends on the arguments.

A signature is called with the operator's arguments. Like the launchers in src/ops/elementwise, it returns the row's
name, operands, and scalars. An operand may be another such call. If the operator has several results, it returns a list
of calls. It returns None to run the eager kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Call = tuple[str, Sequence[Any], Sequence[float]] | list | None


def _float(x: Any) -> bool:
    return x.get_dtype().is_floating_point


def _gelu(x: Any, approximate: str = "none") -> Call:
    return f"gelu_{approximate}", [x], ()


def _gelu_backward(g: Any, x: Any, approximate: str = "none") -> Call:
    return f"gelu_{approximate}_backward", [g, x], ()


def _elu(x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Call:
    return "elu", [x], (alpha * scale, scale, input_scale)


def _elu_backward(g: Any, alpha: float, scale: float, input_scale: float, is_result: bool, x: Any) -> Call:
    return "elu_result_backward" if is_result else "elu_backward", [g, x], (alpha * scale, scale, input_scale)


def _hardtanh(x: Any, low: float = -1, high: float = 1) -> Call:
    return ("hardtanh", [x], (low, high)) if _float(x) else None


def _threshold(x: Any, at: float, value: float) -> Call:
    return ("threshold", [x], (at, value)) if _float(x) else None


def _logit(x: Any, eps: float | None = None) -> Call:
    if not _float(x):
        return None
    return ("logit", [x], ()) if eps is None or eps < 0 else ("logit_clamped", [x], (eps, 1 - eps))


def _logit_backward(g: Any, x: Any, eps: float | None = None) -> Call:
    if eps is None or eps < 0:
        return "logit_backward", [g, x], ()
    return "logit_clamped_backward", [g, x], (eps, 1 - eps)


def _nan_to_num(x: Any, nan: float | None = None, high: float | None = None, low: float | None = None) -> Call:
    if not _float(x):
        return "copy", [x], ()
    limit = torch.finfo(x.get_dtype()).max
    return "nan_to_num", [x], (nan or 0, limit if high is None else high, -limit if low is None else low)


def _round(x: Any, decimals: int = 0) -> Call:
    power = 10.0 ** abs(decimals) if abs(decimals) <= 38 else float("inf")
    return ("round_tens" if decimals < 0 else "round_decimals", [x], (power,)) if _float(x) else None


def _div(a: Any, b: Any, rounding_mode: str | None = None) -> Call:
    return {None: "div", "trunc": "div_trunc", "floor": "floor_divide"}[rounding_mode], [a, b], ()


SMALL_POWERS = {2: "square", 3: "cube", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal", -2: "inverse_square"}


def _pow_number(x: Any, exponent: float) -> Call:
    """Return the call for a power with a number as the exponent. PyTorch computes small powers by multiplication."""
    kept = _float(x) or (isinstance(exponent, int) and x.get_dtype() != torch.bool)  # the result has the dtype of x
    if kept and exponent == 1:
        return "copy", [x], ()
    if kept and exponent in SMALL_POWERS and (_float(x) or exponent > 1):
        return SMALL_POWERS[exponent], [x], ()
    return "pow", [x, exponent], ()


def _addcmul(x: Any, a: Any, b: Any, value: float = 1) -> Call:
    return "addcmul", [x, a, b], (value,)


def _addcdiv(x: Any, a: Any, b: Any, value: float = 1) -> Call:
    return "addcdiv", [x, a, b], (value,)


def _lerp(a: Any, b: Any, weight: Any) -> Call:
    return "lerp", [a, b, weight], ()


def _lerp_number(a: Any, b: Any, weight: float) -> Call:
    return "lerp_number", [a, b], (weight,)


def _ldexp(x: Any, k: Any) -> Call:
    if _float(x) and not _float(k):
        return "ldexp", [x, k], ()
    if not k.get_size() and x.get_dtype() != k.get_dtype():
        return None
    return "mul", [x, ("pow", [2.0, k], ())], ()


def _backward(name: str) -> Callable[..., Call]:
    """Return the signature of a backward operator that takes a gradient, an input, and scalars."""
    return lambda g, x, *scalars: (name, [g, x], [float(s) for s in scalars])


def _leaky_relu(x: Any, slope: float = 0.01) -> Call:
    return "leaky_relu", [x], (slope,)


def _leaky_relu_backward(g: Any, x: Any, slope: float, is_result: bool) -> Call:
    return "leaky_relu_backward", [g, x], (slope,)


def _softplus(x: Any, beta: float = 1, threshold: float = 20) -> Call:
    return "softplus", [x], (beta, threshold)


def _shrink(name: str) -> Callable[..., Call]:
    return lambda x, width=0.5: (name, [x], (width,))


def _unary(name: str) -> Callable[..., Call]:
    return lambda x: (name, [x], ())


def _binary(name: str) -> Callable[..., Call]:
    return lambda a, b: (name, [a, b], ())


SIGNATURES: dict[str, Callable[..., Call]] = {
    "gelu": _gelu,
    "gelu_backward": _gelu_backward,
    "silu": _unary("silu"),
    "leaky_relu": _leaky_relu,
    "leaky_relu_backward": _leaky_relu_backward,
    "elu": _elu,
    "elu_backward": _elu_backward,
    "hardtanh": _hardtanh,
    "hardtanh_backward": _backward("hardtanh_backward"),
    "hardswish": _unary("hardswish"),
    "hardswish_backward": _backward("hardswish_backward"),
    "hardsigmoid": _unary("hardsigmoid"),
    "hardsigmoid_backward": _backward("hardsigmoid_backward"),
    "softplus": _softplus,
    "softplus_backward": _backward("softplus_backward"),
    "mish": _unary("mish"),
    "threshold": _threshold,
    "threshold_backward": _backward("threshold_backward"),
    "hardshrink": _shrink("hardshrink"),
    "hardshrink_backward": _backward("shrink_backward"),
    "softshrink": _shrink("softshrink"),
    "softshrink_backward": _backward("shrink_backward"),
    "logit": _logit,
    "logit_backward": _logit_backward,
    "nan_to_num": _nan_to_num,
    "round.decimals": _round,
    "sigmoid_backward": _backward("sigmoid_result_backward"),
    "tanh_backward": _backward("tanh_result_backward"),
    # The backward kernel does not use the second result.
    "log_sigmoid_forward": lambda x: [("log_sigmoid", [x], ()), ("copy", [x], ())],
    "log_sigmoid_backward": lambda g, x, buffer: ("log_sigmoid_backward", [g, x], ()),
    "_prelu_kernel": lambda x, weight: ("prelu", [weight, x], ()),
    "div.Tensor_mode": _div,
    "div.Scalar_mode": _div,
    "floor_divide": _binary("floor_divide"),
    "floor_divide.Scalar": _binary("floor_divide"),
    "fmod.Tensor": _binary("fmod"),
    "fmod.Scalar": _binary("fmod"),
    "remainder.Tensor": _binary("remainder"),
    "remainder.Scalar": _binary("remainder"),
    "remainder.Scalar_Tensor": _binary("remainder"),
    "pow.Tensor_Tensor": _binary("pow"),
    "pow.Tensor_Scalar": _pow_number,
    "pow.Scalar": _binary("pow"),
    "square": _unary("square"),
    "addcmul": _addcmul,
    "addcdiv": _addcdiv,
    "lerp.Tensor": _lerp,
    "lerp.Scalar": _lerp_number,
    "ldexp.Tensor": _ldexp,
    "polygamma": lambda n, x: ("polygamma", [float(n), x], ()),
    "frexp.Tensor": lambda x: [("frexp_mantissa", [x], ()), ("frexp_exponent", [x], ())],
    "special_ndtr": _unary("ndtr"),
    "isinf": _unary("isinf"),
}  # fmt: skip
