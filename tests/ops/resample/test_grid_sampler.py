"""grid_sample in 2-D and 3-D: every mode, padding and dtype, both gradients, and non-finite coordinates."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from float64_reference import compare
from layouts import on_device
from tables import FLOAT, TAGS

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

MODES = [(2, "bilinear"), (2, "nearest"), (2, "bicubic"), (3, "bilinear"), (3, "nearest")]
IMAGES = {2: (2, 3, 5, 7), 3: (2, 3, 4, 3, 5)}
GRIDS = {2: (2, 4, 19, 2), 3: (2, 2, 3, 19, 3)}


def inputs(dims: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return small integers, so that sums are exact, and a grid that avoids discontinuities and extends beyond the
    image."""
    grid = torch.randint(-44, 45, GRIDS[dims]) / 32 + 1 / 256
    return torch.randint(-4, 5, IMAGES[dims]).to(dtype), grid.to(dtype)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(("dims", "mode"), MODES)
def test_values(dims: int, mode: str, padding: str, align_corners: bool) -> None:
    def sample(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(x, grid, mode, padding, align_corners)

    compare(sample, *inputs(dims, torch.float32), rtol=1e-5, atol=2e-5)  # adding 1 to a coordinate loses digits
    for dtype in FLOAT[1:]:
        x, grid = inputs(dims, dtype)
        with mpsx.profiler.launch_log() as log:
            result = sample(on_device(x), on_device(grid))
        assert f"kernel:grid_sampler_{dims}d_{mode}_{TAGS[dtype]}" in log
        torch.testing.assert_close(result.cpu(), sample(x.float(), grid.float()).to(dtype))


def test_layouts() -> None:
    x, grid = inputs(2, torch.float32)
    for image in (x.to(memory_format=torch.channels_last), x[:, :, ::2, 1:], x[:1].expand(2, -1, -1, -1)):
        compare(lambda x, g: F.grid_sample(x, g, align_corners=False), image, grid, rtol=1e-5, atol=2e-5)
    transposed = grid.transpose(1, 2)
    compare(lambda x, g: F.grid_sample(x, g, align_corners=False), x, transposed, rtol=1e-5, atol=2e-5)
    empty = F.grid_sample(on_device(x), on_device(grid[:, :0]), align_corners=False)
    assert empty.shape == (2, 3, 0, 19)


def non_finite_coordinates(dims: int) -> torch.Tensor:
    """Return a grid that combines non-finite coordinates with coordinates inside and outside the image."""
    nan, inf = float("nan"), float("inf")
    rows = [[0.3] * dims, [2.5] * dims]
    for value in (nan, inf, -inf):
        for d in range(dims):
            for other in (0.3, -0.6, 1.75):
                rows.append([value if e == d else other for e in range(dims)])
        rows.append([value] * dims)
    return torch.tensor(rows).view(1, *[1] * (dims - 1), len(rows), dims)


def cpu_crashes(dims: int, mode: str, padding: str) -> bool:
    """Return whether the CPU kernel would write the gradient of a NaN coordinate to an invalid address."""
    return dims == 2 and mode == "bilinear" and padding != "zeros"


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(("dims", "mode"), MODES)
def test_non_finite_coordinates(dims: int, mode: str, padding: str, align_corners: bool) -> None:
    image = torch.arange(1.0, 121.0).view(2, 60)[:, : 60 if dims == 3 else 20]
    image = image.reshape(1, 2, *((3, 4, 5) if dims == 3 else (4, 5)))
    for dtype in FLOAT:
        results = []
        for d, kind in (("cpu", torch.float32), ("mpsx", dtype)):  # the CPU's 16-bit kernels also round the coordinates
            x = image.to(dtype).to(d, kind).requires_grad_()
            grid = non_finite_coordinates(dims).to(dtype).to(d, kind).requires_grad_()
            y = F.grid_sample(x, grid, mode, padding, align_corners)
            results.append([y.detach().cpu()])
            if d == "mpsx" or not cpu_crashes(dims, mode, padding):
                results[-1] += [g.cpu() for g in torch.autograd.grad(y.sum(), (x, grid))]
        for got, want in zip(results[1], results[0], strict=False):
            close = {"rtol": 1e-5, "atol": 5e-5} if dtype == torch.float32 else {}
            torch.testing.assert_close(got, want.to(dtype), equal_nan=True, **close)


def test_pixels_outside_the_image_are_not_read() -> None:
    outside = F.grid_sample(on_device(torch.full((1, 1, 3, 3), float("inf"))), on_device(
        torch.full((1, 1, 1, 2), 5.0)), align_corners=True)  # fmt: skip
    assert outside.item() == 0


def test_affine() -> None:
    theta = torch.tensor([[[0.5, 0.25, 0.0], [-0.5, 0.75, 0.125]]])
    x = inputs(2, torch.float32)[0][:1]

    def transformed(theta: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(x, F.affine_grid(theta, [1, 3, 6, 4], False), align_corners=False)

    compare(transformed, theta, x, rtol=1e-5, atol=2e-5)


def test_errors() -> None:
    x, grid = (on_device(t) for t in inputs(2, torch.float32))
    with pytest.raises(RuntimeError, match="same batch size"):
        F.grid_sample(x, grid[:1], align_corners=False)
    with pytest.raises(RuntimeError, match="have size 2 in last dimension"):
        F.grid_sample(x, grid.repeat(1, 1, 1, 2), align_corners=False)
