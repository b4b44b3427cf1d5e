"""Points on the curve BN254 as Python integers: affine coordinates (None is infinity) and Montgomery form.

Parameters: EIP-196 and EIP-197.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FIELD = 21888242871839275222246405745257275088696311157297823662689037894645226208583
SCALAR_FIELD = 21888242871839275222246405745257275088548364400416034343698204186575808495617


@dataclass(frozen=True)
class Fp2:
    """An element a + b u of Fp2 with u^2 = -1."""

    a: int
    b: int

    def __add__(self, o: Fp2) -> Fp2:
        return Fp2((self.a + o.a) % FIELD, (self.b + o.b) % FIELD)

    def __sub__(self, o: Fp2) -> Fp2:
        return Fp2((self.a - o.a) % FIELD, (self.b - o.b) % FIELD)

    def __mul__(self, o: Fp2) -> Fp2:
        return Fp2((self.a * o.a - self.b * o.b) % FIELD, (self.a * o.b + self.b * o.a) % FIELD)

    def __eq__(self, o: object) -> bool:
        return (self.a, self.b) == ((o.a, o.b) if isinstance(o, Fp2) else (o, 0))

    def __hash__(self) -> int:
        return hash((self.a, self.b))

    def inverse(self) -> Fp2:
        norm = pow(self.a * self.a + self.b * self.b, -1, FIELD)
        return Fp2(self.a * norm % FIELD, -self.b * norm % FIELD)


def inverse(x: int | Fp2) -> int | Fp2:
    return x.inverse() if isinstance(x, Fp2) else pow(x, -1, FIELD)


def reduced(x: int | Fp2) -> int | Fp2:
    return x if isinstance(x, Fp2) else x % FIELD


def add(p: tuple | None, q: tuple | None) -> tuple | None:
    if p is None or q is None:
        return q if p is None else p
    (x1, y1), (x2, y2) = p, q
    if x1 == x2:
        if reduced(y1 + y2) == 0:
            return None
        slope = (x1 * x1 + x1 * x1 + x1 * x1) * inverse(reduced(y1 + y1))
    else:
        slope = (y2 - y1) * inverse(reduced(x2 - x1))
    x3 = reduced(slope * slope - x1 - x2)
    return x3, reduced(slope * (x1 - x3) - y1)


def multiple(p: tuple | None, k: int) -> tuple | None:
    result = None
    while k:
        result = add(result, p) if k & 1 else result
        p, k = add(p, p), k >> 1
    return result


G1 = (1, 2)
G2 = (
    Fp2(10857046999023057135944570762232829481370756359578518086990519993285655852781,
        11559732032986387107991004021392285783925812861821192530917403151452391805634),
    Fp2(8495653923123431417604973247489272438418190587263600148770280649306958101930,
        4082367875863433681332203403145435568316851327593401208105741076214120093531),
)  # fmt: skip


def encoded(numbers: list[int], modulus: int) -> np.ndarray:
    """Convert numbers to Montgomery form. Each row of the result is one number as eight 32-bit limbs."""
    data = b"".join((n * 2**256 % modulus).to_bytes(32, "little") for n in numbers)
    return np.frombuffer(data, np.uint32).reshape(-1, 8)


def decoded(data: bytes, modulus: int) -> list[int]:
    back = pow(2**256, -1, modulus)
    return [int.from_bytes(data[i : i + 32], "little") * back % modulus for i in range(0, len(data), 32)]
