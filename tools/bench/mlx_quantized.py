"""Cases for MLX's matmuls with quantized weights over Metal 4's tensor operations ("nax")."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch

from .checkout import Case, Checkout, Run, packed, poison, tiles

NAMES = {torch.float32: "float", torch.float16: "float16_t", torch.bfloat16: "bfloat16_t"}
# Group size and bits. The affine modes have a scale and a bias per group, the others a scale of one byte.
MODES = {"affine": [(64, 4), (64, 8)], "mxfp4": [(32, 4)], "mxfp8": [(32, 8)], "nvfp4": [(16, 4)]}
MORE_AFFINE = [(32, 2), (128, 3), (32, 5), (64, 6)]
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


@dataclass
class Weights:
    """Random quantized matrices [count, rows, columns] with groups along the columns."""

    mode: str
    group: int
    bits: int
    packed: torch.Tensor  # the quantized values as a little-endian stream of bits per row
    scales: list[torch.Tensor]  # the scales, and in affine mode the biases
    dense: torch.Tensor  # the values, in the activations' dtype
    magnitude: torch.Tensor  # the absolute values of scale * q and bias, added

    @property
    def name(self) -> str:
        return f"gs_{self.group}_b_{self.bits}"

    def magnitude_with(self, function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        """Return the magnitude of `function`, whose second operand is `dense`."""
        return lambda x, dense: function(x.abs(), self.magnitude.to(dense.device))


def pack_bits(q: torch.Tensor, bits: int) -> torch.Tensor:
    """Pack bytes along the last dimension into a little-endian stream of bits."""
    stream = (q.unsqueeze(-1) >> torch.arange(bits, dtype=torch.uint8)) & 1
    octets = stream.flatten(-2).unflatten(-1, (-1, 8))
    return (octets << torch.arange(8, dtype=torch.uint8)).sum(-1, dtype=torch.uint8)


def random_weights(shape: tuple[int, int, int], mode: str, group: int, bits: int, dtype: torch.dtype) -> Weights:
    """Return random weights. Activations have the given dtype. One more matrix follows in memory, because MLX's kernels
    read the rows of a whole tile, and ignore those past the end."""
    count, shape = shape[0], (shape[0] + 1, *shape[1:])
    groups = (*shape[:2], shape[2] // group)
    q = torch.randint(0, 2**bits, shape, dtype=torch.uint8)
    if mode == "affine":
        scale = (torch.rand(groups) / 2**bits).to(dtype)
        bias = -(scale * 2 ** (bits - 1)).to(dtype)
        parts = [q.double() * scale.double().repeat_interleave(group, -1), bias.double().repeat_interleave(group, -1)]
        values, magnitude, scales = parts[0] + parts[1], parts[0] + parts[1].abs(), [scale, bias]
    else:
        if mode == "nvfp4":
            scale = (0.1 + torch.rand(groups)).to(torch.float8_e4m3fn)
            factor, scale = scale.double(), scale.view(torch.uint8)
        else:
            scale = torch.randint(120, 128, groups).to(torch.uint8)
            factor = 2.0 ** (scale.double() - 127)
        if bits == 4:
            table = torch.tensor([*E2M1, *(-x for x in E2M1)], dtype=torch.float64)
            values = table[q.int()]
        else:
            q[(q & 127) == 127] = 0  # not NaN
            values = q.view(torch.float8_e4m3fn).double()
        values = values * factor.repeat_interleave(group, -1)
        magnitude, scales = values.abs(), [scale]
    return Weights(mode, group, bits, pack_bits(q, bits).to("mpsx")[:count], [s.to("mpsx")[:count] for s in scales],
                   values[:count].to(dtype).to("mpsx"), magnitude[:count])  # fmt: skip


def source(mode: str) -> str:
    """Return the name of MLX's source with the kernels of a mode."""
    return "quantized_nax" if mode == "affine" else "fp_quantized_nax"


def shape_arguments(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """Return the number of batch dimensions, the shape, and the strides of the activations and of the weights, then the
    strides of scales and biases."""
    x, w, *scales = tensors
    described = []
    for t in (x, w):
        described += [packed("i", t.dim() - 2), packed(f"{t.dim()}i", *t.shape), packed(f"{t.dim()}q", *t.stride())]
    return described + [packed(f"{s.dim()}q", *s.stride()) for s in scales]


def words(w: Weights) -> torch.Tensor:
    """Return the packed weights as 32-bit words, which their shape counts."""
    return w.packed.view(torch.int32)


def qmm(mlx: Checkout, x: torch.Tensor, w: Weights, transposed: bool) -> Iterator[tuple[str, Run]]:
    """Yield x @ w (or x @ w.T) for [batch, rows, K], with a matrix of weights per element of the batch."""
    (batch, m, k), batched = x.shape, len(x) > 1
    n = w.dense.shape[1] if transposed else w.dense.shape[2]
    out = torch.empty(batch, m, n, dtype=x.dtype, device="mpsx")
    for bm in (32, 64) if transposed else (64,):  # MLX uses 32 for at most 32 rows
        aligned = f"_alN_{'true' if n % 64 == 0 else 'false'}" if transposed else ""
        name = (f"{w.mode}_qmm_{'t' if transposed else 'n'}_nax_{NAMES[x.dtype]}_{w.name}_bm{bm}_bn64_bk64_wm2_wn2"
                f"{aligned}_batch_{int(batched)}")  # fmt: skip
        kernel = mlx.kernel(source(w.mode), name)
        shapes = shape_arguments(x, words(w), *w.scales)
        lengths = [packed("i", size) for size in (k, n, m)]
        threads = (tiles(n, 64) * 32, tiles(m, bm) * 2, batch * 2)

        def run(kernel=kernel, shapes=shapes, lengths=lengths, threads=threads) -> torch.Tensor:
            poison(out)
            kernel(words(w), *w.scales, x, out, *lengths, *shapes, threads=threads, group_size=(32, 2, 2))
            return out

        yield f"bm{bm}", run


def gather_qmm(mlx: Checkout, x: torch.Tensor, w: Weights, rows: torch.Tensor,
               experts: torch.Tensor) -> Iterator[tuple[str, Run]]:  # fmt: skip
    """Yield x[rows] @ w[experts].mT."""
    _, m, k = x.shape
    n = w.dense.shape[1]
    out = torch.empty(len(rows), m, n, dtype=x.dtype, device="mpsx")
    aligned = "true" if n % 64 == 0 else "false"
    name = f"{w.mode}_gather_qmm_t_nax_{NAMES[x.dtype]}_{w.name}_bm64_bn64_bk64_wm2_wn2_alN_{aligned}"
    kernel = mlx.kernel(source(w.mode), name)
    shapes = shape_arguments(x, words(w), *w.scales)
    indices = [packed("i", 1), packed("i", len(rows)), packed("q", 1), packed("q", 1)]
    lengths = [packed("i", size) for size in (k, n, m)]
    threads = (tiles(n, 64) * 32, tiles(m, 64) * 2, len(rows) * 2)

    def run() -> torch.Tensor:
        poison(out)
        kernel(words(w), *w.scales, x, rows, experts, out, *lengths, *shapes, *indices, threads=threads,
               group_size=(32, 2, 2))  # fmt: skip
        return out

    yield "bm64", run


def gather_rows(mlx: Checkout, x: torch.Tensor, w: Weights, experts: torch.Tensor,
                transposed: bool) -> Iterator[tuple[str, Run]]:  # fmt: skip
    """Yield the products of x's rows with the matrices that `experts` selects."""
    m, k = x.shape
    n = w.dense.shape[1] if transposed else w.dense.shape[2]
    out = torch.empty(m, n, dtype=x.dtype, device="mpsx")
    for bm in (32, 64):
        name = (f"{w.mode}_gather_qmm_rhs_nax_n{'t' if transposed else 'n'}_{NAMES[x.dtype]}_{w.name}_bm_{bm}_bn_64"
                "_bk_64_wm_2_wn_2")  # fmt: skip
        kernel = mlx.kernel(source(w.mode), name, align_M=m % bm == 0, align_N=n % 64 == 0,
                            align_K=k % 64 == 0)  # fmt: skip
        lengths = [packed("i", size) for size in (m, n, k)]
        threads = (tiles(n, 64) * 32, tiles(m, bm) * 2, 2)

        def run(kernel=kernel, lengths=lengths, threads=threads) -> torch.Tensor:
            poison(out)
            kernel(x, words(w), *w.scales, experts, out, *lengths, threads=threads, group_size=(32, 2, 2))
            return out

        yield f"bm{bm}", run


def dense_product(x: torch.Tensor, w: torch.Tensor, transposed: bool) -> torch.Tensor:
    return x @ (w.mT if transposed else w)


def formats(small: bool) -> Iterator[tuple[str, int, int]]:
    """Yield the modes with group size and bits."""
    for mode, choices in MODES.items():
        for group, bits in [*choices, *(MORE_AFFINE if small and mode == "affine" else [])]:
            yield mode, group, bits


def batch_case(mlx: Checkout, w: Weights, m: int, transposed: bool) -> Case:
    """Return the product of [batch, m, k] and the weights."""
    batch, n, k = w.dense.shape if transposed else (len(w.dense), *w.dense.shape[:0:-1])
    x = torch.randn(batch, m, k, dtype=w.dense.dtype, device="mpsx")
    function = partial(dense_product, transposed=transposed)
    return Case(f"nax {w.mode}_qmm_{'t' if transposed else 'n'} {w.name} {batch}x{m}x{n}x{k}",
                2.0 * batch * m * n * k, function, [x, w.dense], qmm(mlx, x, w, transposed),
                w.magnitude_with(function), 2)  # fmt: skip


def batch_cases(mlx: Checkout, dtype: torch.dtype, small: bool) -> Iterator[Case]:
    """Yield the cases with one quantized matrix per element of a batch."""
    m, columns, k = (70, 96, 256) if small else (4096, 4096, 2048)
    for (mode, group, bits), layout in itertools.product(formats(small), "tn" if small else "t"):
        transposed = layout == "t"
        if not transposed and mode != "affine":
            continue  # MLX has no such kernels
        n = columns if transposed else 128 * tiles(columns, 128)  # groups are along n
        for batch in (1, 2) if small else (1,):
            w = random_weights((batch, n, k) if transposed else (batch, k, n), mode, group, bits, dtype)
            yield batch_case(mlx, w, m, transposed)


def fault_cases(mlx: Checkout, dtype: torch.dtype, _: bool) -> Iterator[Case]:
    """Yield a case that simt rejects: no memory follows the weights, and their rows are not a multiple of a tile's."""
    w = random_weights((1, 90, 256), "affine", 64, 4, dtype)
    alone = replace(w, packed=w.packed.clone(), scales=[s.clone() for s in w.scales])
    yield batch_case(mlx, alone, 70, True)


def gather_cases(mlx: Checkout, dtype: torch.dtype, small: bool) -> Iterator[Case]:
    """Yield the cases that select one quantized matrix per batch or row."""
    counts, columns, k = ([37, 0, 64, 9], 96, 256) if small else ([512] * 8, 2048, 1024)
    bounds = [0, *itertools.accumulate(counts)]
    experts = torch.tensor([e for e, count in enumerate(counts) for _ in range(count)], dtype=torch.int32)
    for (mode, group, bits), layout in itertools.product(formats(small), "tn" if small else "t"):
        transposed = layout == "t"
        n = columns if transposed else 128 * tiles(columns, 128)
        w = random_weights((len(counts), n, k) if transposed else (len(counts), k, n), mode, group, bits, dtype)
        x = torch.randn(bounds[-1], k, dtype=dtype, device="mpsx")

        def by_expert(x: torch.Tensor, w: torch.Tensor, transposed=transposed) -> torch.Tensor:
            ranges = enumerate(itertools.pairwise(bounds))
            return torch.cat([dense_product(x[start:end], w[e], transposed) for e, (start, end) in ranges])

        yield Case(f"nax {mode}_gather_rows_{layout} {w.name} {len(counts)}x{bounds[-1]}x{n}x{k}",
                   2.0 * bounds[-1] * n * k, by_expert, [x, w.dense], gather_rows(mlx, x, w, experts.to("mpsx"),
                                                                                   transposed),
                   w.magnitude_with(by_expert), 2)  # fmt: skip
        if not small or not transposed:
            continue
        lhs, rhs = torch.tensor([2, 0, 1], dtype=torch.int32), torch.tensor([0, 3, 0], dtype=torch.int32)
        batched = torch.randn(3, 70, k, dtype=dtype, device="mpsx")

        def by_batch(x: torch.Tensor, w: torch.Tensor, lhs=lhs, rhs=rhs) -> torch.Tensor:
            return x[lhs.tolist()] @ w[rhs.tolist()].mT

        yield Case(f"nax {mode}_gather_qmm_{layout} {w.name} 3x70x{n}x{k}", 0, by_batch, [batched, w.dense],
                   gather_qmm(mlx, batched, w, lhs.to("mpsx"), rhs.to("mpsx")),
                   w.magnitude_with(by_batch), 2)  # fmt: skip
