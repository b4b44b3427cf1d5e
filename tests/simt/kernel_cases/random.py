"""Random numbers, which must be the same as in wide mode."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from tables import DTYPES, FLOAT, TAGS

from kernel_cases import Case, case, values

N = 2500  # enough elements for several chunks


def cases() -> Iterator[Case]:
    for dtype in DTYPES["ALL"]:
        tag, x = TAGS[dtype], torch.zeros(N, dtype=dtype)
        functions = {"bernoulli": lambda t: t.bernoulli_(0.3), "random": lambda t: t.random_(0, 2)}
        if dtype in FLOAT:
            functions |= {
                "uniform": lambda t: t.uniform_(-1, 3),
                "normal": lambda t: t.normal_(1, 2),
                "log_normal": lambda t: t.log_normal_(0.1, 0.5),
                "exponential": lambda t: t.exponential_(2),
                "cauchy": lambda t: t.cauchy_(1, 2),
            }
        if dtype != torch.bool:
            functions["geometric"] = lambda t: t.geometric_(0.3)
        if dtype in (torch.float32, torch.bfloat16, torch.int64):
            functions["wide random"] = lambda t: t.random_(-(2**40), 2**40)
        if dtype == torch.int32:
            functions["wide random"] = lambda t: t.random_(-(2**31), None)
        for name, function in functions.items():
            yield case(f"{name} {tag}", function, x, reference="none")
        yield case(f"bernoulli of probabilities {tag}", lambda t, p: t.bernoulli_(p), x, values(N, low=0.1, high=0.9),
                   reference="none")  # fmt: skip
    mean = values(N, low=0.1, high=40)
    yield case("gamma", torch._standard_gamma, mean, reference="none")
    for dtype in FLOAT:
        weights = values(3, 700, dtype=dtype, low=0, high=1)
        yield case(f"multinomial {TAGS[dtype]}", torch.multinomial, weights, 300, True, reference="none")
    yield case("binomial", lambda n, p: torch.binomial((4 * n).floor(), p), mean, values(N, low=0, high=1),
               reference="none")  # fmt: skip
    for dtype in FLOAT:
        yield case(f"poisson {TAGS[dtype]}", torch.poisson, mean.to(dtype), reference="none")
        x, g = values(N, dtype=dtype), values(N, dtype=dtype, seed=1)

        def dropout(t: torch.Tensor, gradient: torch.Tensor) -> tuple[torch.Tensor, ...]:
            leaf = t.detach().requires_grad_()
            result = F.dropout(leaf, 0.3)
            return result, *torch.autograd.grad(result, leaf, gradient)

        yield case(f"dropout {TAGS[dtype]}", dropout, x, g, reference="none")

    def attention(q: torch.Tensor, gradient: torch.Tensor) -> tuple[torch.Tensor, ...]:
        leaf = q.detach().requires_grad_()
        result = torch.ops.aten._scaled_dot_product_fused_attention_overrideable(leaf, leaf, leaf, None, 0.3)[0]
        return result, *torch.autograd.grad(result, leaf, gradient)

    # Larger scores would magnify the differences between the drivers, whose sums have different orders.
    yield case("attention with dropout", attention, values(1, 2, 12, 16, low=-1, high=1),
               values(1, 2, 12, 16, low=-1, high=1, seed=1), reference="none")  # fmt: skip
    for dtype in (torch.int32, torch.int64):
        for n in (50, 5000):
            yield case(f"randperm of {n} {TAGS[dtype]}", lambda n, t: torch.randperm(n, out=t), n,
                       torch.zeros(n, dtype=dtype), reference="none")  # fmt: skip
