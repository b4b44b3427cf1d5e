"""grid_sample in two and three dimensions: every mode, padding and type, both gradients, what is not a number."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from against_double import compare
from layouts import on_device
from tables import FLOAT, TAGS

import mpsx

pytestmark = pytest.mark.usefixtures("no_fallback")

MODES = [(2, "bilinear"), (2, "nearest"), (2, "bicubic"), (3, "bilinear"), (3, "nearest")]
IMAGES = {2: (2, 3, 5, 7), 3: (2, 3, 4, 3, 5)}
GRIDS = {2: (2, 4, 19, 2), 3: (2, 2, 3, 19, 3)}


def inputs(dims: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Whole numbers, whose sums are short, and a grid that goes beyond the image; no coordinate is near a step."""
    grid = torch.randint(-44, 45, GRIDS[dims]) / 32 + 1 / 256
    return torch.randint(-4, 5, IMAGES[dims]).to(dtype), grid.to(dtype)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(("dims", "mode"), MODES)
def test_values(dims: int, mode: str, padding: str, align_corners: bool) -> None:
    def sample(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(x, grid, mode, padding, align_corners)

    compare(sample, *inputs(dims, torch.float32), rtol=1e-5, atol=2e-5)  # digits of the coordinate are lost by -1 + 1
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
    turned = grid.transpose(1, 2)
    compare(lambda x, g: F.grid_sample(x, g, align_corners=False), x, turned, rtol=1e-5, atol=2e-5)
    empty = F.grid_sample(on_device(x), on_device(grid[:, :0]), align_corners=False)
    assert empty.shape == (2, 3, 0, 19)


def test_not_a_number() -> None:
    x = torch.full((1, 1, 3, 3), float("inf"))
    x[0, 0, 1, 1] = 2
    grid = torch.tensor([[0.0, 0.0], [float("nan"), 0.0], [1e30, 0.0], [float("inf"), -1e30]]).view(1, 1, 4, 2)
    for padding in ("zeros", "border"):
        result = F.grid_sample(on_device(x), on_device(grid), "nearest", padding, True).cpu()
        torch.testing.assert_close(result, F.grid_sample(x, grid, "nearest", padding, True))
    # Taps outside the image add nothing, whatever memory next to it holds.
    outside = F.grid_sample(on_device(x), on_device(torch.full((1, 1, 1, 2), 5.0)), align_corners=True)
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
