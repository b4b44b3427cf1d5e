"""Create sparse tensors, and compare them with the CPU."""

from __future__ import annotations

from collections.abc import Callable

import torch

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.int8, torch.bool, torch.complex64)


def numbers(sizes: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return small integers, so that sums and products are exact in every dtype."""
    if dtype is torch.bool:
        return torch.randint(0, 2, sizes).bool()
    values = torch.randint(1 if dtype is torch.uint8 else -3, 4, sizes)
    return torch.complex(values.float(), values.flip(0).float()) if dtype.is_complex else values.to(dtype)


def coo(
    *sizes: int, sparse_dim: int = 2, nnz: int = 12, dtype: torch.dtype = torch.float32, coalesced: bool = False
) -> torch.Tensor:
    """Return a sparse CPU tensor. Coordinates are repeated unless `coalesced` is set."""
    indices = torch.stack([torch.randint(0, size, (nnz,)) for size in sizes[:sparse_dim]] or [torch.empty(0)]).long()
    values = numbers((nnz, *sizes[sparse_dim:]), dtype)
    made = torch.sparse_coo_tensor(indices.view(sparse_dim, nnz), values, sizes)
    return made.coalesce() if coalesced else made


def on_device(value: object) -> object:
    """Move tensors to mpsx, and return other values unchanged."""
    return value.to("mpsx") if isinstance(value, torch.Tensor) else value


def check(got: object, want: object) -> None:
    """Compare tensors. Explicit zeros and the order of uncoalesced elements do not matter."""
    if not isinstance(want, torch.Tensor):
        assert got == want
        return
    assert isinstance(got, torch.Tensor)
    assert got.device.type == "mpsx"
    assert (got.dtype, got.layout, got.shape) == (want.dtype, want.layout, want.shape)
    if want.layout == torch.sparse_coo:
        assert (got.sparse_dim(), got.is_coalesced()) == (want.sparse_dim(), want.is_coalesced())
        back = got.cpu()
        assert back.is_coalesced() == got.is_coalesced()
        if want.is_coalesced():
            assert torch.equal(back.indices(), want.indices())
            torch.testing.assert_close(back.values(), want.values(), equal_nan=True)
        else:
            dense = torch.promote_types(want.dtype, torch.float32)  # the CPU cannot densify half precision
            torch.testing.assert_close(back.to(dense).to_dense(), want.to(dense).to_dense(), equal_nan=True)
    else:
        torch.testing.assert_close(got.cpu(), want, equal_nan=True)


def compare(function: Callable[..., object], *arguments: object) -> None:
    """Compare `function` on mpsx with the CPU."""
    check(function(*map(on_device, arguments)), function(*arguments))
