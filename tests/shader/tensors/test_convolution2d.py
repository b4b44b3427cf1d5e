"""Compare Metal 4's convolution2d (metal_stdlib/tensor/convolution2d.h) with torch's float64 convolution."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

import mpsx

SOURCE = (Path(__file__).parent / "convolution2d.metal").read_text()
DTYPES = {"half": torch.float16, "bfloat": torch.bfloat16, "float": torch.float32, "char": torch.int8,
          "uchar": torch.uint8, "int": torch.int32}  # fmt: skip
EPSILON = {"half": 2.0**-11, "bfloat": 2.0**-8, "float": 2.0**-24, "int": 0.0}


@dataclass
class Kernel:
    types: tuple  # element types of the activation, the weights, the sum, and the destination
    direct: bool = False
    groups: int = 4
    tile: tuple = (32, 8, 4, 1)
    channels: int = -1
    window: tuple = (3, 3)
    strides: tuple = (1, 1)
    dilations: tuple = (1, 1)
    accumulate: bool = False

    def __str__(self):
        values = [*self.types, self.direct, self.groups, *self.tile, self.channels, *self.window, *self.strides,
                  *self.dilations, self.accumulate]  # fmt: skip
        return f"convolve<{', '.join(str(v).lower() for v in values)}>"


def library(kernels):
    lines = (f'template [[host_name("k{i}")]] kernel decltype({k}) {k};\n' for i, k in enumerate(kernels))
    return mpsx.compile_shader(SOURCE + "".join(lines))


def values(shape, dtype, generator):
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(0 if dtype == torch.uint8 else -100, 100, shape, generator=generator).to(dtype)


def check(lib, i, kernel, channels, width, height, outputs, padding=(0, 0), batch=1, gap=0):
    """Run kernel `k{i}`. Each activation pixel is followed by `gap` elements that the kernel must not read."""
    generator = torch.Generator().manual_seed(i)
    a_type, b_type, sum_type, c_type = kernel.types
    (kx, ky), (sx, sy), (dx, dy) = kernel.window, kernel.strides, kernel.dilations
    a = values((batch, height, width, channels), DTYPES[a_type], generator)
    w = values((ky, kx, channels, outputs), DTYPES[b_type], generator)
    bias = torch.randint(-3, 3, (outputs,), generator=generator).float()
    wide = torch.full((batch, height, width, channels + gap), 99).to(a.dtype)
    wide[..., :channels] = a

    def convolved(x, y):
        out = torch.nn.functional.conv2d(x.double().permute(0, 3, 1, 2), y.double().permute(3, 2, 0, 1), None, (sy, sx),
                                         (padding[1], padding[0]), (dy, dx))  # fmt: skip
        return out.permute(0, 2, 3, 1)

    product, magnitude = convolved(a, w), convolved(a.double().abs(), w.double().abs())
    start = values(product.shape, torch.int8, generator).to(DTYPES[c_type])
    added = start.double() * kernel.accumulate + (0 if kernel.direct else bias.double())
    c = start.to("mpsx")
    tile_o, tile_w, tile_h, tile_n = kernel.tile
    out_height, out_width = product.shape[1:3]
    tiles = -(-out_width // tile_w) * -(-out_height // tile_h)
    sizes = [channels, width, height, batch, outputs, out_width, out_height, *padding, channels + gap]
    threads = 32 * kernel.groups
    getattr(lib, f"k{i}")(wide.to("mpsx"), w.to("mpsx"), c, sizes, bias.to("mpsx"), arg_casts={3: "int32"},
                          threads=(-(-outputs // tile_o) * threads, tiles, -(-batch // tile_n)),
                          group_size=(threads, 1, 1))  # fmt: skip
    k = kx * ky * channels
    stored = product.abs() + added.abs() + start.double().abs()
    bound = magnitude * (k + 3) * 2.0**-24 + stored * 2 * (EPSILON[sum_type] + EPSILON[c_type])
    error = (c.cpu().double() - product - added).abs()
    assert (error <= bound + 1e-7).all(), f"{kernel}: {(error - bound).max()} above the bound"


TYPES = [
    ("half", "half", "float", "half"), ("half", "half", "half", "half"), ("bfloat", "bfloat", "float", "bfloat"),
    ("float", "float", "float", "float"), ("half", "float", "float", "float"), ("char", "char", "int", "int"),
    ("uchar", "char", "float", "float"), ("half", "char", "float", "half"),
]  # fmt: skip


@pytest.mark.parametrize("direct", [False, True])
def test_element_types(direct):
    kernels = [Kernel(types, direct) for types in TYPES]
    lib = library(kernels)
    for i, kernel in enumerate(kernels):
        check(lib, i, kernel, 5, 13, 7, 37, (1, 1), gap=3)


def test_accumulation():
    types = [("half", "half", "float", "half"), ("float",) * 4, ("char", "char", "float", "float")]
    kernels = [Kernel(t, direct, accumulate=True) for direct in (False, True) for t in types]
    lib = library(kernels)
    for i, kernel in enumerate(kernels):
        check(lib, i, kernel, 18, 9, 9, 33, (1, 1))


SHAPES = [
    (dict(window=(1, 1)), (0, 0)), (dict(window=(1, 1), strides=(2, 2)), (0, 0)),
    (dict(window=(5, 3)), (2, 1)), (dict(window=(2, 4)), (0, 2)), (dict(window=(3, 3), strides=(2, 1)), (1, 0)),
    (dict(window=(3, 3), dilations=(2, 3)), (2, 3)), (dict(window=(2, 2), dilations=(3, 2)), (1, 1)),
    (dict(window=(4, 2), strides=(3, 2), dilations=(1, 2)), (3, 1)),
]  # fmt: skip


def test_windows():
    """Windows of even and odd size, strides and dilations, with static and dynamic channel counts."""
    static = [-1, 3, 16, 20]
    kernels = [Kernel(("half", "half", "float", "float"), channels=static[i % 4], **shape)
               for i, (shape, _) in enumerate(SHAPES)]  # fmt: skip
    lib = library(kernels)
    for i, (kernel, (_, padding)) in enumerate(zip(kernels, SHAPES, strict=True)):
        check(lib, i, kernel, kernel.channels if kernel.channels > 0 else 7, 19, 15, 40, padding)


TILES = [((64, 8, 8, 1), 4), ((32, 16, 2, 2), 2), ((16, 5, 3, 1), 1), ((32, 8, 2, 1), 1), ((40, 7, 1, 3), 3),
         ((128, 4, 4, 1), 8)]  # fmt: skip


def test_tiles_and_batches():
    kernels = [Kernel(("float",) * 4, tile=tile, groups=groups) for tile, groups in TILES]
    lib = library(kernels)
    for i, kernel in enumerate(kernels):
        check(lib, i, kernel, 10, 18, 9, 50, (1, 1), batch=4)
