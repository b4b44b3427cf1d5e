"""ggml's block formats for weights: values of random blocks in float64, to check kernels against.

A decoder gets the blocks as uint8 [blocks, bytes]. It returns the values and their magnitudes, both
[blocks, values per block]. A magnitude is the sum of the absolute values of the terms that a kernel adds.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
IQ4 = torch.tensor([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113])
Decoded = tuple[torch.Tensor, torch.Tensor]


def half(blocks: torch.Tensor, offset: int) -> torch.Tensor:
    """Return the half at a byte offset of each block, as float64 [blocks, 1]."""
    return blocks[:, offset : offset + 2].contiguous().view(torch.float16).double()


def nibbles(octets: torch.Tensor) -> torch.Tensor:
    """Return the low nibbles of all bytes, followed by the high nibbles."""
    return torch.cat([octets & 15, octets >> 4], -1).to(torch.int64)


def fields(octets: torch.Tensor, bits: int) -> torch.Tensor:
    """Split bytes into fields: the lowest `bits` of all bytes, then the next ones, and so on."""
    return torch.cat([(octets >> shift) & (2**bits - 1) for shift in range(0, 8, bits)], -1).to(torch.int64)


def bits_of(octets: torch.Tensor) -> torch.Tensor:
    """Return the bits of all bytes in little-endian order."""
    return ((octets.unsqueeze(-1) >> torch.arange(8)) & 1).flatten(1).to(torch.int64)


def scaled(d: torch.Tensor, q: torch.Tensor, offset: int = 0) -> Decoded:
    """Decode d * (q - offset)."""
    return d * (q - offset), d.abs() * (q.double().abs() + offset)


def with_minimum(d: torch.Tensor, q: torch.Tensor, m: torch.Tensor) -> Decoded:
    """Decode d * q + m."""
    return d * q + m, (d * q).abs() + m.abs()


def high_bits_of_32(x: torch.Tensor) -> torch.Tensor:
    return bits_of(x) << 4


def scales_6_bits(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Unpack eight scales and eight minimums of six bits from 12 bytes."""
    low, middle, high = x[:, :4], x[:, 4:8], x[:, 8:]
    scale = torch.cat([low & 63, (high & 15) | (low >> 6 << 4)], 1)
    minimum = torch.cat([middle & 63, (high >> 4) | (middle >> 6 << 4)], 1)
    return scale.double(), minimum.double()


def q2_k(x: torch.Tensor) -> Decoded:
    q = torch.cat([fields(x[:, 16:48], 2), fields(x[:, 48:80], 2)], 1)
    scale, minimum = (part.double().repeat_interleave(16, 1) for part in (x[:, :16] & 15, x[:, :16] >> 4))
    return with_minimum(half(x, 80) * scale, q, -half(x, 82) * minimum)


def q3_k(x: torch.Tensor) -> Decoded:
    low = torch.cat([fields(x[:, 32:64], 2), fields(x[:, 64:96], 2)], 1)
    high = fields(x[:, :32], 1)
    octets = x[:, 96:108]
    scale = torch.cat([octets[:, :8] & 15, octets[:, :8] >> 4], 1) | (fields(octets[:, 8:], 2) << 4)
    d = (half(x, 108) * (scale.double() - 32)).repeat_interleave(16, 1)
    return scaled(d, low + 4 * high, 4)


def q4_k(x: torch.Tensor) -> Decoded:
    q = torch.cat([nibbles(part) for part in x[:, 16:].split(32, 1)], 1)
    scale, minimum = (part.repeat_interleave(32, 1) for part in scales_6_bits(x[:, 4:16]))
    return with_minimum(half(x, 0) * scale, q, -half(x, 2) * minimum)


def q5_k(x: torch.Tensor) -> Decoded:
    q = torch.cat([nibbles(part) for part in x[:, 48:].split(32, 1)], 1) + (fields(x[:, 16:48], 1) << 4)
    scale, minimum = (part.repeat_interleave(32, 1) for part in scales_6_bits(x[:, 4:16]))
    return with_minimum(half(x, 0) * scale, q, -half(x, 2) * minimum)


def q6_k(x: torch.Tensor) -> Decoded:
    low = torch.cat([nibbles(part) for part in x[:, :128].split(64, 1)], 1)
    high = torch.cat([fields(part, 2) for part in x[:, 128:192].split(32, 1)], 1)
    scale = x[:, 192:208].view(torch.int8).double()
    return scaled((half(x, 208) * scale).repeat_interleave(16, 1), low | (high << 4), 32)


def iq4_xs(x: torch.Tensor) -> Decoded:
    high = x[:, 2:4].contiguous().view(torch.uint16).to(torch.int64) >> torch.arange(0, 16, 2) & 3
    low = torch.stack([x[:, 4:8] & 15, x[:, 4:8] >> 4], 2).flatten(1)
    d = (half(x, 0) * ((low | (high << 4)).double() - 32)).repeat_interleave(32, 1)
    return scaled(d, IQ4[torch.cat([nibbles(part) for part in x[:, 8:].split(16, 1)], 1)])


def mxfp4(x: torch.Tensor) -> Decoded:
    values = torch.cat([E2M1, -E2M1])[nibbles(x[:, 1:])].double()
    return scaled(2.0 ** (x[:, :1].double() - 127), values)


def tq2_0(x: torch.Tensor) -> Decoded:
    return scaled(half(x, 64), torch.cat([fields(x[:, :32], 2), fields(x[:, 32:64], 2)], 1), 1)


def q2_0(x: torch.Tensor) -> Decoded:
    q = torch.stack([(x[:, 2:] >> shift) & 3 for shift in (0, 2, 4, 6)], 2).flatten(1).to(torch.int64)
    return scaled(half(x, 0), q, 1)


# Values per block, bytes per block, byte offsets of halves, and the decoder.
FORMATS: dict[str, tuple[int, int, tuple[int, ...], Callable[[torch.Tensor], Decoded]]] = {
    "q1_0": (128, 18, (0,), lambda x: scaled(half(x, 0), 2 * bits_of(x[:, 2:]), 1)),
    "q2_0": (64, 18, (0,), q2_0),
    "q4_0": (32, 18, (0,), lambda x: scaled(half(x, 0), nibbles(x[:, 2:]), 8)),
    "q4_1": (32, 20, (0, 2), lambda x: with_minimum(half(x, 0), nibbles(x[:, 4:]), half(x, 2))),
    "q5_0": (32, 22, (0,), lambda x: scaled(half(x, 0), nibbles(x[:, 6:]) + high_bits_of_32(x[:, 2:6]), 16)),
    "q5_1": (32, 24, (0, 2),
             lambda x: with_minimum(half(x, 0), nibbles(x[:, 8:]) + high_bits_of_32(x[:, 4:8]), half(x, 2))),
    "q8_0": (32, 34, (0,), lambda x: scaled(half(x, 0), x[:, 2:].view(torch.int8))),
    "mxfp4": (32, 17, (), mxfp4),
    "q2_K": (256, 84, (80, 82), q2_k),
    "q3_K": (256, 110, (108,), q3_k),
    "q4_K": (256, 144, (0, 2), q4_k),
    "q5_K": (256, 176, (0, 2), q5_k),
    "q6_K": (256, 210, (208,), q6_k),
    "iq4_nl": (32, 18, (0,), lambda x: scaled(half(x, 0), IQ4[nibbles(x[:, 2:])])),
    "iq4_xs": (256, 136, (0,), iq4_xs),
    "tq2_0": (256, 66, (64,), tq2_0),
}  # fmt: skip


def random_blocks(name: str, *shape: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return random weights of the given shape in a format: the bytes of each row, values, and magnitudes."""
    values, size, halves, decode = FORMATS[name]
    count = shape[-1] // values
    blocks = torch.randint(0, 256, (*shape[:-1], count, size), dtype=torch.uint8).flatten(0, -2)
    for offset in halves:
        scale = (torch.rand(len(blocks), 1) / 64).to(torch.float16)
        blocks[:, offset : offset + 2] = scale.view(torch.uint8)
    if name == "mxfp4":
        blocks[:, 0] = torch.randint(118, 126, (len(blocks),))
    decoded = (part.view(*shape).double() for part in decode(blocks))
    return blocks.view(*shape[:-1], count * size), *decoded
