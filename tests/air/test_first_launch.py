"""A kernel's first launch compiles little code in few compiler runs."""

import re
import uuid

import pytest
import torch
from air_modules import function_of, metallib, text_of

import mpsx
from mpsx.air import build, lower

pytestmark = pytest.mark.skipif(mpsx.driver()["name"] not in ("host", "simt"), reason="needs host or simt")

HEAVY = "\n".join(f"  %x{i} = fmul float %x{i - 1}, %x{i - 1}" for i in range(1, 401))


def renamed(text):
    """Rename a module's kernel, so that it is not in the cache."""
    name = re.search(r"!0 = !\{ptr @(\w+)", text)[1]
    return re.sub(rf"@{name}\b", f"@k{uuid.uuid4().hex[:16]}", text)


def shader_of(text):
    return mpsx.load_metallib(metallib(text)).__dict__["__shader"]


def lowered(text, mode="auto", **constants):
    builder = shader_of(text).builder
    return build.lowered_text(builder.parse(function_of(text)), constants, mode, "", "")[0]


def attributes(text, function):
    """Return the attributes of a function in lowered IR."""
    group = re.search(rf"^define .*@{function}\(.*\) (#\d+) ", text, re.M)[1]
    return re.search(rf"^attributes {group} = {{ (.*) }}", text, re.M)[1].split()


def test_disabled_code_is_not_compiled():
    """A branch that a function constant disables takes no space in the library."""
    text = text_of("constants").replace("phi float [ %6, %3 ]", "phi float [ %x400, %3 ]")
    shader = shader_of(renamed(text.replace("  br label %7\n", f"  %x0 = fadd float %6, %6\n{HEAVY}\n  br label %7\n")))
    (name,) = shader.names()
    sizes = {}
    for use_bias in "01":
        path, _ = shader.builder.library(shader.functions[name], {"use_bias": use_bias, "scale": "1.0,2.0"})
        with open(path, "rb") as file:
            sizes[use_bias] = len(file.read())
    assert sizes["0"] < sizes["1"] - 1600  # 400 instructions of at least 4 bytes


def test_kernels_without_their_constants_are_not_compiled(monkeypatch):
    shader = shader_of(renamed(text_of("constants")))
    monkeypatch.setattr(build.KernelBuilder, "compile", lambda *_: pytest.fail("compiled"))
    (name,) = shader.names()
    kernel = shader.kernel(name)
    with pytest.raises(RuntimeError, match="expected values for the function constants"):
        kernel.max_threads_per_threadgroup  # noqa: B018


def test_compiler_runs(monkeypatch):
    """A first launch runs the compiler and the linker. With -O3, it vectorizes loops over threads, and nothing else."""
    commands, run = [], build.Builder.run

    def counted(self, command, *arguments):
        commands.append(command)
        return run(self, command, *arguments)

    monkeypatch.setattr(build.Builder, "run", counted)
    shader_of(text_of("axpy")).kernel("axpy")  # compiles the runtime
    levels = []
    for module in ("axpy", "reduce"):
        text = renamed(text_of(module))
        for runs in (2, 0):  # the second library finds the kernel in the cache
            commands.clear()
            shader = shader_of(text)
            shader.kernel(shader.names()[0])
            assert len(commands) == runs
            levels += [[f for f in commands[0] if f.startswith("-O")][-1]] if runs else []
    assert levels == (["-O1", "-O1"] if mpsx.driver()["name"] == "simt" else ["-O3", "-O1"])


def matrices(steps):
    """Return the module matmul, with steps between the product %7 and the store of `%last`."""
    store = "  tail call void @air.simdgroup_matrix_8x8_store.v64f32.p1f32(<64 x float> %7,"
    text = text_of("matmul")
    assert store in text
    return text.replace(store, steps + store.replace("%7", "%last"))


def test_matrices_have_two_elements():
    """A lane uses two of the 64 elements of a matrix in AIR."""
    tail = ", ".join(f"i32 {64 + i}" for i in range(2, 64))
    unused = ", ".join(["i32 poison"] * 62)
    ones = ", ".join(["float 1.000000e+00"] * 64)
    text = matrices(f"""  %slot = alloca [2 x <64 x float>], align 256
  %second = getelementptr inbounds [2 x <64 x float>], ptr %slot, i64 0, i64 1
  store <64 x float> %7, ptr %second, align 256
  %kept = load <64 x float>, ptr %second, align 256
  %pair = shufflevector <64 x float> %kept, <64 x float> poison, <2 x i32> <i32 0, i32 1>
  %twice = fadd <2 x float> %pair, %pair
  %wide = shufflevector <2 x float> %twice, <2 x float> poison, <64 x i32> <i32 0, i32 1, {unused}>
  %merged = shufflevector <64 x float> %6, <64 x float> %wide, <64 x i32> <i32 64, i32 65, {tail}>
  %right = shufflevector <64 x float> %wide, <64 x float> %6, <64 x i32> <i32 0, i32 1, {tail}>
  %first = extractelement <64 x float> %merged, i64 0
  %changed = insertelement <64 x float> %right, float %first, i64 0
  br label %next

next:
  %sum = phi <64 x float> [ %changed, %3 ]
  %last = fsub <64 x float> %sum, <{ones}>
""")
    left = [line for line in lowered(text).split("\n") if "<64 x " in line]
    assert [re.sub(r" = .*", "", line).strip() for line in left] == ["%slot", "%second"]
    library = mpsx.load_metallib(metallib(renamed(text)))
    a, b = (torch.randint(-8, 8, (8, 8)).half() for _ in range(2))
    c = torch.zeros(8, 8, device="mpsx")
    getattr(library, dir(library)[0])(a.to("mpsx"), b.to("mpsx"), c, threads=32, group_size=32)
    torch.testing.assert_close(c.cpu(), 2 * (a.float() @ b.float().T + 1) - 1, rtol=0, atol=0)


def test_other_elements_of_matrices_are_rejected():
    text = matrices("  %third = extractelement <64 x float> %7, i64 2\n"
                    "  %last = insertelement <64 x float> %7, float %third, i64 0\n")  # fmt: skip
    with pytest.raises(build.AirError, match="element 2 of a lane's simdgroup_matrix"):
        lowered(text)


@pytest.mark.parametrize("recursive", [False, True])
def test_large_functions_are_not_inlined(recursive):
    """A loop over threads inlines all functions, unless the result would be too large to compile quickly."""
    def module(length):
        body = "\n".join(f"  %x{i} = fmul float %x{i - 1}, %x{i - 1}" for i in range(1, length))
        again = f"  %x{length} = call float @helper(float %x{length - 1})\n  ret float %x{length}"
        end = again if recursive else f"  ret float %x{length - 1}"
        helper = f"define internal float @helper(float %x0) {{\n{body}\n{end}\n}}\n\n"
        calls = "  %20 = call float @helper(float %11)\n  %21 = call float @helper(float %20)\n"
        return helper + text_of("axpy").replace("  store float %12", f"{calls}  store float %12")

    inlined = {n: "alwaysinline" in attributes(lowered(module(n)), "helper") for n in (10, lower.INLINE_LINES)}
    assert inlined == {10: not recursive, lower.INLINE_LINES: False}
