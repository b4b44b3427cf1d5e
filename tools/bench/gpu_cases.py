"""Benchmarks for tools/bench/gpu.py: operators on 2^27 elements, matmul, convolution, and attention."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F

from bench.cases import DTYPES, OPS, Run, backward, like, optimizer_step, positions

ELEMENTS = 2**27
LENGTHS = (64, 1024, 4096, 32768)  # row lengths
Matrix = Callable[[torch.Tensor], Run]


@dataclass(frozen=True)
class Case:
    """A benchmark. `make` creates the call to time. It takes a random matrix of `shape`, or a device if there is no
    shape."""

    category: str
    name: str
    make: Callable[..., Run]
    dtype: str
    shape: tuple[int, ...] = ()
    layout: str = "contiguous"
    moved: float = 0  # bytes read and written
    operations: float = 0


# Maps a name to (a function that creates the call, the number of elements read and written per matrix element, the
# number of additional bytes read and written per matrix element).
Table = dict[str, tuple[Matrix, float, float]]


def ops(**moved: tuple[float, float]) -> Table:
    """Return a table with operators from OPS and the amount of data that each of them moves."""
    return {name: (OPS[name][0], *bytes_) for name, bytes_ in moved.items()}


def flat(function: Callable[..., torch.Tensor], *numbers: int) -> Matrix:
    """Return a call of `function` on slices of flat copies of x. Each number is the start index of one slice."""
    return lambda x: partial(function, *(x.clone().view(-1)[n : n - 8] for n in numbers))


def tall(x: torch.Tensor) -> torch.Tensor:
    """Return x as a batch of 64 x 64 images with 64 channels."""
    return x.reshape(-1, 64, 64, 64)


DENSE: Table = {
    **ops(contiguous=(2, 0), exp=(2, 0), gelu=(2, 0), relu=(2, 0), tanh=(2, 0), add=(3, 0), mul=(3, 0), div=(3, 0)),
    **ops(add_scalar=(2, 0), clamp=(2, 0), lt=(2, 1), where=(3, 1), fill=(1, 0)),
    "to_bf16": (lambda x: partial(x.to, torch.bfloat16 if x.dtype != torch.bfloat16 else torch.float32), 1, 0),
    "gelu_bwd": (lambda x: backward(x, F.gelu), 3, 0),
    "add_": (lambda x: partial(x.add_, like(x)), 3, 0),
}
STRIDED = ops(contiguous=(2, 0), add=(3, 0), exp=(2, 0))
UNALIGNED: Table = {
    "add_1_1": (flat(torch.add, 1, 1), 3, 0),
    "add_1_2": (flat(torch.add, 1, 2), 3, 0),
    "exp_1": (flat(torch.exp, 1), 2, 0),
}
ROWS: Table = {
    **ops(softmax=(2, 0), log_softmax=(2, 0), layer_norm=(2, 0), rms_norm=(2, 0)),
    **ops(sum_rows=(1, 0), amax_rows=(1, 0), argmax_rows=(1, 0), var_rows=(1, 0), cross_entropy=(1, 0)),
    "softmax_bwd": (lambda x: backward(x, lambda p: p.softmax(-1)), 3, 0),
    "layer_norm_bwd": (lambda x: norm_backward(x, F.layer_norm, bias=True), 3, 0),
    "rms_norm_bwd": (lambda x: norm_backward(x, F.rms_norm), 3, 0),
    "cross_entropy_bwd": (lambda x: backward(x, lambda p: F.cross_entropy(p, positions(p) % p.shape[1])), 2, 0),
}
COLUMNS: Table = {
    **ops(sum_columns=(1, 0), amax_columns=(1, 0), sum_all=(1, 0), amax_all=(1, 0), vector_norm=(1, 0)),
    "batch_norm": (lambda x: partial(F.batch_norm, tall(x), None, None, training=True), 3, 0),
    "batch_norm_bwd": (lambda x: backward(tall(x), lambda p: F.batch_norm(p, None, None, training=True)), 5, 0),
    "group_norm": (lambda x: partial(F.group_norm, tall(x), 8), 2, 0),
    "group_norm_bwd": (lambda x: backward(tall(x), lambda p: F.group_norm(p, 8)), 3, 0),
}
INDEX: Table = {
    **ops(embedding=(2, 0), gather=(2, 8), index_select=(2, 0), cat=(4, 0), dropout=(2, 1), adamw_fused=(7, 0)),
    **ops(adamw_default=(7, 0), scatter_add_=(3, 8), index_put_add=(3, 0), flip_rows=(2, 0), flip_columns=(2, 0)),
    "cat_rows": (lambda x: partial(torch.cat, [x, x]), 4, 0),
    "embedding_bwd": (lambda x: backward(x, lambda w: F.embedding(positions(w), w)), 2, 0),
    "adamw_foreach": (lambda x: optimizer_step(x, foreach=True), 7, 0),
    "normal_": (lambda x: like(x).normal_, 1, 0),
    "dropout_bwd": (lambda x: backward(x, lambda p: F.dropout(p, 0.1)), 2, 1),
}
POOL: Table = {
    "max_pool2d_2": (lambda x: partial(F.max_pool2d, tall(x), 2), 1.25, 2),
    "max_pool2d_3_2": (lambda x: partial(F.max_pool2d, tall(x), 3, 2, 1), 1.25, 2),
    "max_pool2d_bwd_2": (lambda x: backward(tall(x), lambda p: F.max_pool2d(p, 2)), 1.25, 2),
    "max_pool2d_bwd_3_2": (lambda x: backward(tall(x), lambda p: F.max_pool2d(p, 3, 2, 1)), 1.25, 2),
    "avg_pool2d_2": (lambda x: partial(F.avg_pool2d, tall(x), 2), 1.25, 0),
    "avg_pool2d_bwd_2": (lambda x: backward(tall(x), lambda p: F.avg_pool2d(p, 2)), 1.25, 0),
    "avg_pool2d_bwd_last": (
        lambda x: backward(tall(x).contiguous(memory_format=torch.channels_last), lambda p: F.avg_pool2d(p, 2)), 1.25, 0
    ),
    "adaptive_avg_pool2d_1": (lambda x: partial(F.adaptive_avg_pool2d, tall(x), 1), 1, 0),
    "interpolate": (lambda x: partial(F.interpolate, tall(x)[:, :16], scale_factor=2, mode="bilinear"), 1.25, 0),
}
SORT: Table = {
    "sort": (lambda x: partial(torch.sort, x), 2, 8),
    "topk": (lambda x: partial(torch.topk, x, 8), 1, 0),
    "cumsum": (lambda x: partial(torch.cumsum, x, -1), 2, 0),
    "cumsum_columns": (lambda x: partial(torch.cumsum, x, 0), 2, 0),
    "cumsum_all": (lambda x: partial(torch.cumsum, x.view(-1), 0), 2, 0),
}


def norm_backward(x: torch.Tensor, norm: Callable[..., torch.Tensor], *, bias: bool = False) -> Run:
    """Return the backward pass of a row normalization. It computes the gradients of the input and the weight, and also
    that of the bias if `bias` is set."""
    leaves = [x.detach().requires_grad_()]
    leaves += [torch.ones_like(x[0]).requires_grad_() for _ in range(1 + bias)]
    y = norm(leaves[0], x.shape[-1:], *leaves[1:])
    return partial(torch.autograd.grad, y, leaves, torch.ones_like(y), retain_graph=True)


# Matmul, the convolutions of ResNet-50, and attention


def random(device: str, dtype: str, *shape: int) -> torch.Tensor:
    """Return random numbers from the standard normal distribution."""
    return torch.randn(shape, device=device, dtype=DTYPES[dtype])


def matmul(dtype: str, m: int, n: int, k: int, batch: int, layout: str, device: str) -> Run:
    """Return a matmul, which is batched if `batch` is greater than 1. `layout` says with a t for each operand if it is
    transposed in memory."""
    a = random(device, dtype, batch, k, m).mT if layout[0] == "t" else random(device, dtype, batch, m, k)
    b = random(device, dtype, batch, n, k).mT if layout[1] == "t" else random(device, dtype, batch, k, n)
    return partial(torch.bmm, a, b) if batch > 1 else partial(torch.mm, a[0], b[0])


def convolution(
    dtype: str, c: int, side: int, out: int, kernel: int, stride: int, grad: bool, last: bool, device: str
) -> Run:
    """Return a convolution of 64 images, or its backward pass if `grad` is set. If `last`, all tensors are in
    channels-last format."""
    shapes = (64, c, side, side), (out, c, kernel, kernel)
    layout = torch.channels_last if last else torch.contiguous_format
    x, w = (random(device, dtype, *shape).contiguous(memory_format=layout) for shape in shapes)
    if not grad:
        return partial(F.conv2d, x, w, None, stride, kernel // 2)
    leaves = [x.requires_grad_(), w.requires_grad_()]
    y = F.conv2d(*leaves, None, stride, kernel // 2)
    return partial(torch.autograd.grad, y, leaves, torch.ones_like(y), retain_graph=True)


def attention(dtype: str, length: int, width: int, causal: bool, grad: bool, device: str) -> Run:
    """Return attention with batch size 4 and 16 heads, or its backward pass if `grad` is set."""
    leaves = [random(device, dtype, 4, 16, length, width).requires_grad_(grad) for _ in range(3)]
    run = partial(F.scaled_dot_product_attention, *leaves, is_causal=causal)
    if not grad:
        return run
    y = run()
    return partial(torch.autograd.grad, y, leaves, torch.ones_like(y), retain_graph=True)


PRODUCTS = [(4096, 4096, 4096, 1, "nn"), (4096, 4096, 4096, 1, "nt"), (512, 512, 512, 64, "nn"),
            (1, 8192, 8192, 1, "nt"), (16384, 768, 3072, 1, "nt"), (128, 4096, 16384, 1, "nn")]  # fmt: skip
# Inputs and outputs of the linear layers of GPT-2 and BERT, for 4096 tokens: forward, input and weight gradient.
LAYERS = [(768, 768), (768, 2304), (768, 3072), (3072, 768), (768, 30522), (768, 50257)]
PRODUCTS += [product for inputs, outputs in LAYERS for product in (
    (4096, outputs, inputs, 1, "nt"), (4096, inputs, outputs, 1, "nn"), (outputs, inputs, 4096, 1, "tn"))]  # fmt: skip
CONVOLUTIONS = [(3, 224, 64, 7, 2), (64, 56, 64, 3, 1), (64, 56, 256, 1, 1), (256, 56, 128, 1, 1), (128, 56, 128, 3, 2),
                (128, 28, 128, 3, 1), (256, 14, 256, 3, 1), (1024, 14, 2048, 1, 2), (512, 7, 512, 3, 1)]  # fmt: skip


def matrix_cases(dtype: str) -> Iterator[Case]:
    """Yield the benchmarks of matmul, convolution, and attention."""
    for m, n, k, batch, layout in PRODUCTS:
        name = "matmul" if layout == "nn" else f"matmul_{layout}"
        make = partial(matmul, dtype, m, n, k, batch, layout)
        yield Case("matrix", name, make, dtype, (batch, m, n, k), operations=2.0 * batch * m * n * k)
    for grad in (False, True):
        for last, (c, side, out, kernel, stride) in itertools.product((False, True), CONVOLUTIONS):
            work = (2.0 + 2 * grad) * 64 * out * (side // stride) ** 2 * c * kernel**2
            make = partial(convolution, dtype, c, side, out, kernel, stride, grad, last)
            name = "conv2d" + "_last" * last + "_bwd" * grad
            yield Case("matrix", name, make, dtype, (c, side, out, kernel, stride), operations=work)
        for width, causal in ((64, False), (128, False), (64, True)):
            work = (4.0 + 6 * grad) * 64 * 2048**2 * width / (1 + causal)
            make = partial(attention, dtype, 2048, width, causal, grad)
            name = "attention" + "_causal" * causal + "_bwd" * grad
            yield Case("matrix", name, make, dtype, (64, 2048, width), operations=work)


def positive_definite(x: torch.Tensor) -> torch.Tensor:
    """Return a batch of symmetric positive definite matrices."""
    return x @ x.mT / x.shape[-1] + torch.eye(x.shape[-1], device=x.device)


def well_conditioned(x: torch.Tensor) -> torch.Tensor:
    """Return a batch of well-conditioned lower triangular matrices."""
    return x.tril() / x.shape[-1] + torch.eye(x.shape[-1], device=x.device)


LINALG: dict[str, Matrix] = {
    "cholesky": lambda x: partial(torch.linalg.cholesky_ex, positive_definite(x)),
    "solve_triangular": lambda x: partial(torch.linalg.solve_triangular, well_conditioned(x), x, upper=False),
    "lu_factor": lambda x: partial(torch.linalg.lu_factor_ex, x),
    "inv": lambda x: partial(torch.linalg.inv_ex, x),
    "solve": lambda x: partial(torch.linalg.solve_ex, x, x[..., : min(32, x.shape[-1])].clone()),
    "qr": lambda x: partial(torch.linalg.qr, x),
}
LINALG_SHAPES = [(512, 32, 32), (2048, 2048)]


def linalg_case(make: Matrix, shape: tuple[int, ...], device: str) -> Run:
    """Return a linear algebra call on random matrices of `shape`."""
    return make(random(device, "f32", *shape))


FFT_SHAPES = [(1024, 1024), (64, 65536)]
FFT: list[tuple[str, Matrix, tuple[int, ...]]] = [
    *(("fft", lambda x: partial(torch.fft.fft, torch.complex(x, x)), shape) for shape in FFT_SHAPES),
    *(("rfft", lambda x: partial(torch.fft.rfft, x), shape) for shape in FFT_SHAPES),
    ("fft2", lambda x: partial(torch.fft.fft2, torch.complex(x, x)), (64, 256, 256)),
]


def fft_case(make: Matrix, shape: tuple[int, ...], device: str) -> Run:
    """Return a Fourier transform of random numbers."""
    return make(random(device, "f32", *shape))


def table_cases(category: str, table: Table, dtype: str, shape: tuple[int, int], layout: str = "") -> Iterator[Case]:
    """Yield one benchmark for each operator in a table, on a matrix of `shape`."""
    elements, item = shape[0] * shape[1], DTYPES[dtype].itemsize
    for name, (make, items, more) in table.items():
        to = 0 if name != "to_bf16" else 4 if dtype == "bf16" else 2  # bytes per output element
        moved = elements * (items * item + more + to)
        yield Case(category, name, make, dtype, shape, layout or "contiguous", moved)


def cases(dtypes: list[str]) -> Iterator[Case]:
    """Yield all benchmarks, alternating between categories. The first one is a copy, the baseline for bandwidths."""
    square = (8192, ELEMENTS // 8192)
    for dtype in dtypes:
        yield from table_cases("dense", DENSE, dtype, square)
        for layout in ("transposed", "broadcast", "columns", "slice"):
            yield from table_cases("strided", STRIDED, dtype, square, layout)
        yield from table_cases("strided", UNALIGNED, dtype, square)
    for dtype in dtypes:
        for length in LENGTHS:
            yield from table_cases("rows", ROWS, dtype, (ELEMENTS // length, length))
        yield from table_cases("columns", COLUMNS, dtype, square)
    for dtype in dtypes:
        yield from matrix_cases(dtype)
    if "f32" in dtypes:
        for name, make in LINALG.items():
            for shape in LINALG_SHAPES:
                yield Case("linalg", name, partial(linalg_case, make, shape), "f32", shape)
        for name, make, shape in FFT:
            yield Case("fft", name, partial(fft_case, make, shape), "f32", shape)
    for dtype in dtypes:
        yield from table_cases("index", INDEX, dtype, (ELEMENTS // 4096, 1024))
        yield from table_cases("pool", POOL, dtype, (2**13, 2**12))
        yield from table_cases("sort", SORT, dtype, (2**10, 2**14))
