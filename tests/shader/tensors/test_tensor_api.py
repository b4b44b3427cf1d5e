"""Metal 4's tensor views, cooperative tensors, reductions, and attention (api.metal)."""

from pathlib import Path

import pytest
import torch

import mpsx

SOURCE = (Path(__file__).parent / "api.metal").read_text()
DTYPES = {"half": torch.float16, "bfloat": torch.bfloat16, "float": torch.float32}
SCOPES = [("execution_simdgroup", 16, 32), ("execution_simdgroup", 32, 32), ("execution_simdgroups<2>", 16, 32),
          ("execution_simdgroups<4>", 64, 48), ("execution_thread", 8, 4)]  # fmt: skip


def threads_of(scope):
    fixed = {"execution_thread": 1, "execution_simdgroup": 32}
    return fixed.get(scope) or 32 * int(scope.partition("<")[2].strip(">"))


def library(names):
    lines = (f'template [[host_name("k{i}")]] kernel decltype({name}) {name};\n' for i, name in enumerate(names))
    return mpsx.compile_shader(SOURCE + "".join(lines))


def test_views():
    data = torch.arange(72, dtype=torch.int32).view(3, 4, 6)
    out = torch.full((64,), 12345, dtype=torch.int32).to("mpsx")
    mpsx.compile_shader(SOURCE).views(data.to("mpsx"), out, threads=32, group_size=32)
    expected = [6, 1, 4, 6, 3, 24, 3, 71, 4, 4, 13, 6, 4, 10, 6, 20, 4, 1, 3, 6, 2, 24, 32, 3, 2, 1, 3, 48 + 18 + 3,
                1, 48 + 18 + 2, -1, 5, 2, 48 + 18 + 5]  # fmt: skip
    assert out.cpu()[: len(expected) + 1].tolist() == [*expected, 12345]


def test_elements():
    lib = library([f"elements<{m}, {n}, {scope}>" for scope, m, n in SCOPES])
    for i, (scope, m, n) in enumerate(SCOPES):
        x = torch.randn(m, n)
        out, counts = torch.full((m, n), 7.0).to("mpsx"), torch.zeros(m, n).to("mpsx")
        getattr(lib, f"k{i}")(x.to("mpsx"), out, counts, threads=threads_of(scope), group_size=threads_of(scope))
        assert torch.equal(counts.cpu(), torch.ones(m, n)), scope
        assert torch.equal(out.cpu()[:-1], 2 * (x + 1)[:-1]), scope
        assert (out.cpu()[-1] == 7).all(), f"{scope}: wrote beyond the slice"


def test_full_tiles_have_no_invalid_elements():
    """PyTorch's GEMM kernels do not check the elements of complete tiles."""
    tiles = [(48, 128, 4), (16, 128, 4), (32, 32, 4), (16, 64, 2), (128, 128, 8), (96, 64, 8), (80, 32, 1)]
    lib = library([f"capacities<{m}, {n}, execution_simdgroups<{groups}>>" for m, n, groups in tiles])
    for i, (m, n, groups) in enumerate(tiles):
        out = torch.zeros(32 * groups, 2, dtype=torch.int32).to("mpsx")
        getattr(lib, f"k{i}")(out, threads=32 * groups, group_size=32 * groups)
        assert out.cpu().tolist() == [[m * n // (32 * groups), 0]] * 32 * groups, (m, n, groups)


def test_reductions():
    cases = [(t, *s) for s in SCOPES for t in ("half", "float")]
    lib = library([f"reductions<{t}, {m}, {n}, {scope}>" for t, scope, m, n in cases])
    generator = torch.Generator().manual_seed(0)
    for i, (t, scope, m, n) in enumerate(cases):
        a, b = (torch.randn(shape, generator=generator).to(DTYPES[t]) for shape in ((m, 16), (16, n)))
        out, low = torch.zeros(m, n).to("mpsx"), torch.zeros(n).to("mpsx")
        threads = threads_of(scope)
        getattr(lib, f"k{i}")(a.to("mpsx"), b.to("mpsx"), out, low, threads=threads, group_size=threads)
        product = a.double() @ b.double()
        torch.testing.assert_close(low.cpu(), product.amin(0).float(), rtol=1e-5, atol=1e-5, msg=f"{t} {scope}")
        torch.testing.assert_close(out.cpu(), product.softmax(1).float(), rtol=2e-5, atol=1e-6, msg=f"{t} {scope}")


@pytest.mark.parametrize("in_registers", [False, True])
def test_attention(in_registers):
    cases = [("half", 32, 32, 64, "execution_simdgroups<2>"), ("bfloat", 16, 32, 32, "execution_simdgroups<1>"),
             ("float", 64, 32, 32, "execution_simdgroups<4>")]  # fmt: skip
    lib = library([f"attention<{t}, {str(in_registers).lower()}, {bq}, {bk}, {d}, {scope}>"
                   for t, bq, bk, d, scope in cases])  # fmt: skip
    generator = torch.Generator().manual_seed(1)
    for i, (t, bq, _, d, scope) in enumerate(cases):
        q, k, v = (torch.randn(n, d, generator=generator).to(DTYPES[t]) for n in (70, 100, 100))
        out, threads = torch.zeros(70, d).to("mpsx"), threads_of(scope)
        getattr(lib, f"k{i}")(q.to("mpsx"), k.to("mpsx"), v.to("mpsx"), out, [70, 100], arg_casts={4: "int32"},
                              threads=-(-70 // bq) * threads, group_size=threads)  # fmt: skip
        expected = torch.nn.functional.scaled_dot_product_attention(*(x.double()[None] for x in (q, k, v)))[0]
        tolerance = {"half": 2e-3, "bfloat": 2e-2, "float": 2e-5}[t]  # P has the same type as V
        torch.testing.assert_close(out.cpu(), expected.float(), rtol=tolerance, atol=tolerance, msg=f"{t} {scope}")


def test_fragment_lanes():
    types = ["half", "bfloat", "float"]
    lib = library([f"lanes<{t}>" for t in types])
    for i, t in enumerate(types):
        a, b = torch.randn(16, 16).to(DTYPES[t]), torch.randn(16, 32).to(DTYPES[t])
        out, sums = torch.zeros(16, 32).to("mpsx"), torch.zeros(16).to("mpsx")
        getattr(lib, f"k{i}")(a.to("mpsx"), b.to("mpsx"), out, sums, threads=32, group_size=32)
        product = a.double() @ b.double()
        torch.testing.assert_close(out.cpu(), product.float(), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(sums.cpu(), product.sum(1).float(), rtol=1e-4, atol=1e-4)


def test_simdgroups_that_work_separately():
    generator = torch.Generator().manual_seed(2)
    a, b = (torch.randn(shape, generator=generator).half() for shape in ((80, 40), (40, 32)))
    out = torch.zeros(80, 32).to("mpsx")
    mpsx.compile_shader(SOURCE).separately(a.to("mpsx"), b.to("mpsx"), out, threads=160, group_size=160)
    torch.testing.assert_close(out.cpu(), a.float() @ b.float(), rtol=1e-5, atol=1e-5)
