"""Dense kernels access memory in 16-byte vectors. Test unaligned memory, and sizes that are not multiples of the
vector size."""

import pytest
import torch

pytestmark = pytest.mark.usefixtures("no_fallback")

SIZES = [*range(1, 130), 257, 509, 1021, 4099]
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


def numbers(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Return small integers, so that sums are exact in every dtype."""
    return torch.randint(0, 50, shape).to(dtype)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bool, torch.complex64], ids=str)
@pytest.mark.parametrize("offsets", [(0, 0), (1, 1), (0, 3), (5, 0)], ids=str)
def test_flat(dtype: torch.dtype, offsets: tuple[int, int]) -> None:
    """Use operands that start at `offsets`. The elements around the result must not change."""
    torch.manual_seed(0)
    first, second = offsets
    x, y, c = numbers(dtype, 5000), numbers(dtype, 5000), numbers(torch.bool, 5000)
    x_d, y_d, c_d = x.to("mpsx"), y.to("mpsx"), c.to("mpsx")
    other = torch.float32 if dtype != torch.float32 else torch.float16
    other = torch.complex64 if dtype.is_complex else other
    for n in SIZES:
        a, b, k = x[first : first + n], y[second : second + n], c[second : second + n]
        a_d, b_d, k_d = x_d[first : first + n], y_d[second : second + n], c_d[second : second + n]
        pairs = [
            (torch.add(a, b), torch.add(a_d, b_d)),
            (torch.eq(a, b), torch.eq(a_d, b_d)),
            (torch.logical_not(a), torch.logical_not(a_d)),
            (a.to(other), a_d.to(other)),
            (a.clone(), a_d.clone()),
        ]
        if not dtype.is_complex:
            pairs.append((torch.where(k, a, b), torch.where(k_d, a_d, b_d)))
        out, out_d = (torch.zeros(n + 16, dtype=dtype, device=t.device) for t in (a, a_d))
        for whole, part in ((out, a), (out_d, a_d)):
            whole[first + 1 : first + 1 + n].copy_(part)
            whole[n + first + 2 : n + first + 5].fill_(1)
        pairs.append((out, out_d))
        for cpu, device in pairs:
            assert torch.equal(device.cpu(), cpu), f"{n} elements"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("columns", [1, 3, 4, 8, 15, 16, 17, 31, 64, 67, 128, 131, 515], ids=str)
def test_rows(dtype: torch.dtype, columns: int) -> None:
    """Use rows whose pitch is or is not a multiple of the vector size, broadcast rows and columns, and a transpose."""
    torch.manual_seed(0)
    for pitch in (columns, columns + 1, columns + 16):
        x, y = numbers(dtype, 7, 2, pitch), numbers(dtype, 7, 2, pitch)
        a, b = x[..., :columns], y[:, :1, pitch - columns :]
        a_d, b_d = x.to("mpsx")[..., :columns], y.to("mpsx")[:, :1, pitch - columns :]
        pairs = [
            (a + b, a_d + b_d),
            (a - b[..., :1], a_d - b_d[..., :1]),
            (b[..., :1] - a, b_d[..., :1] - a_d),
            (a.transpose(0, 2) + 1, a_d.transpose(0, 2) + 1),
            (a.transpose(0, 2).contiguous(), a_d.transpose(0, 2).contiguous()),
            (a.expand(3, 7, 2, columns).contiguous(), a_d.expand(3, 7, 2, columns).contiguous()),
            (a.to(torch.bfloat16), a_d.to(torch.bfloat16)),
        ]
        k, k_d = a > 25, a_d > 25
        pairs += [
            (torch.where(k, a, b[..., :1]), torch.where(k_d, a_d, b_d[..., :1])),
            (torch.where(k, b[..., :1], a), torch.where(k_d, b_d[..., :1], a_d)),
            (torch.where(k, b[..., :1], 7), torch.where(k_d, b_d[..., :1], 7)),
            (torch.where(k[..., :1], b[..., :1], a), torch.where(k_d[..., :1], b_d[..., :1], a_d)),
        ]
        for cpu, device in pairs:
            assert torch.equal(device.cpu(), cpu), f"pitch {pitch}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_foreach_and_dropout(dtype: torch.dtype) -> None:
    """Use lists that contain unaligned tensors. Dropout must draw the same numbers for any alignment."""
    torch.manual_seed(0)
    for offset in (0, 1):
        tensors = [numbers(dtype, n + offset) for n in (1, 3, 64, 129, 8191, 8192, 8209)]
        cpu = [t[offset:] for t in tensors]
        device = [t.to("mpsx")[offset:] for t in tensors]
        results = torch._foreach_add(device, device, alpha=2)
        for a, b in zip(torch._foreach_add(cpu, cpu, alpha=2), results, strict=True):
            assert torch.equal(b.cpu(), a)
    x = torch.ones(5000, dtype=dtype, device="mpsx")
    drawn = []
    for offset in (0, 1):
        torch.manual_seed(0)
        drawn.append(torch.nn.functional.dropout(x[offset : offset + 4900], 0.25).cpu())
    assert torch.equal(*drawn)
    assert 0.7 < float((drawn[0] != 0).float().mean()) < 0.8
