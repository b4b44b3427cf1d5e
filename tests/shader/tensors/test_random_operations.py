"""Compare matmul2d and convolution2d with float64 for random types, tiles, scopes, shapes, and strides.

Each seed generates one library per operation. The sweep runs more seeds.
"""

import random

import pytest
import test_convolution2d as convolution
import test_matmul2d as matmul

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.sweep) for seed in range(1, 40))]


def random_matmul(rng):
    name = rng.choice(["cooperative", "direct", "staged", "registers"])
    scope = rng.choice(["execution_simdgroup", *(f"execution_simdgroups<{n}>" for n in (1, 2, 3, 4, 8)),
                        *(["execution_thread"] if name != "staged" else [])])  # fmt: skip
    if scope == "execution_thread":
        m, n = rng.choice([(1, 1), (4, 8), (8, 3)])
    else:
        m, n = rng.choice([8, 16, 32, 48, 64]), rng.choice([8, 16, 24, 32, 64])
    return (name, *rng.choice(matmul.TYPES), m, n, rng.random() < 0.5, rng.random() < 0.5, scope)


@pytest.mark.parametrize("seed", SEEDS)
def test_matmul2d(seed):
    rng = random.Random(seed)
    kernels = [random_matmul(rng) for _ in range(5)]
    lib = matmul.library(kernels)
    for i, kernel in enumerate(kernels):
        for _ in range(3):
            m, n, k = (rng.choice([1, 7, 16, 31, 33, 64, 100]) for _ in range(3))
            accumulate = kernel[0] == "direct" and rng.random() < 0.5
            matmul.check(lib, i, kernel, m, n, k, rng.choice([0, 1, 8]), accumulate)


def random_convolution(rng):
    return convolution.Kernel(
        rng.choice(convolution.TYPES), rng.random() < 0.5, rng.choice([1, 2, 4, 8]),
        (rng.choice([8, 16, 32, 40]), rng.choice([1, 4, 7, 8]), rng.choice([1, 2, 5]), rng.choice([1, 1, 2])),
        rng.choice([-1, 1, 3, 16, 24]), (rng.randint(1, 5), rng.randint(1, 5)), (rng.randint(1, 3), rng.randint(1, 3)),
        (rng.randint(1, 3), rng.randint(1, 3)), rng.random() < 0.3)  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_convolution2d(seed):
    rng = random.Random(seed)
    kernels = [random_convolution(rng) for _ in range(4)]
    lib = convolution.library(kernels)
    for i, kernel in enumerate(kernels):
        reach = [(taps - 1) * spacing + 1 for taps, spacing in zip(kernel.window, kernel.dilations, strict=True)]
        for _ in range(2):
            width, height = (rng.randint(r, r + 12) for r in reach)
            padding = tuple(rng.randint(0, r) for r in reach)
            channels = kernel.channels if kernel.channels > 0 else rng.choice([1, 5, 17])
            convolution.check(lib, i, kernel, channels, width, height, rng.choice([1, 10, 33]), padding,
                              rng.choice([1, 3]), rng.choice([0, 2]))  # fmt: skip
