"""Damaged metallibs raise errors. None of them ends the process."""

import random

import pytest
from air_modules import assemble, clang, metallib, text_of

import mpsx
from mpsx.__main__ import main
from mpsx.air import bitcode, build
from mpsx.air.ir import AirError
from mpsx.air.metallib import HEADER, Function, MetallibError, read, write

ON_CPU = pytest.mark.skipif(mpsx.driver()["name"] not in ("host", "simt"), reason="needs host or simt")


def damaged(data: bytes, generator: random.Random, start: int = 0) -> bytes:
    """Return a copy in which bits, bytes, or numbers of eight bytes differ, or which is too short or too long."""
    result = bytearray(data)
    for _ in range(generator.choice((1, 2, 8))):
        at = generator.randrange(start, len(result))
        kind = generator.randrange(5)
        if kind == 0:
            result[at] ^= 1 << generator.randrange(8)
        elif kind == 1:
            result[at] = generator.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            result[at & ~7 : (at & ~7) + 8] = generator.choice((b"\xff" * 8, b"\0" * 8, b"\0" * 7 + b"\x80"))
        elif kind == 3:
            result[at:at] = generator.randbytes(3)
        elif at > start:
            del result[at:]
    return bytes(result)


def test_container():
    """Damage to any part of the container either raises MetallibError, or does not matter."""
    functions = [Function(f"kernel{i}", "kernel", (2, 6), (3, 1), b"BC\xc0\xde" + bytes(i)) for i in range(4)]
    data, generator, rejected = write(functions), random.Random(0), 0
    for _ in range(3000):
        try:
            read(damaged(data, generator))
        except MetallibError:
            rejected += 1
    assert 1000 < rejected < 3000


@pytest.mark.parametrize("offset", [1 << 31, 1 << 63, (1 << 64) - 8])
def test_offsets_beyond_the_file(offset):
    data = write([Function("f", "kernel", (2, 6), (3, 1), b"BC\xc0\xde")])
    for field in (9, 15, 16):  # offsets of the function list and the bitcode, and the size of the bitcode
        header = list(HEADER.unpack_from(data))
        header[field] = offset
        with pytest.raises(MetallibError, match="the file is damaged"):
            read(HEADER.pack(*header) + data[HEADER.size :])


@ON_CPU
def test_hash():
    """A metallib states the SHA-256 hash of each function's bitcode."""
    data = bytearray(metallib(text_of("axpy"), text_of("reduce")))
    data[-100] ^= 1
    library = mpsx.load_metallib(bytes(data))
    with pytest.raises(RuntimeError, match="kernel 'reduce' is not supported: expected LLVM bitcode with the SHA-256"):
        library.reduce  # noqa: B018
    assert repr(library.axpy) == "<mpsx kernel axpy>"


def test_bitcode_without_hash():
    """LLVM aborts for some damaged modules, so modules without a hash are read in another process."""
    data, generator, rejected = assemble(text_of("axpy")), random.Random(1), 0
    for _ in range(6):
        function = Function("axpy", "kernel", (2, 6), (3, 1), damaged(data, generator, start=16))
        try:
            build.parse(function, clang())
        except AirError:
            rejected += 1
    assert rejected
    with pytest.raises(AirError, match="expected LLVM bitcode"):
        bitcode.disassemble(data[:-200], b"", clang())


@pytest.mark.parametrize(("before", "after", "message"), [
    ("!0 = !{ptr @axpy, ", "!0 = !{", "expected a kernel's metadata"),
    ('!"air.location_index", i32 1', '!"air.location_index", !"one"', "expected a kernel's metadata"),
    ('"air.location_index"', '"air.location"', "expected a kernel's metadata, got KeyError"),
])  # fmt: skip
def test_metadata(before, after, message):
    assert before in text_of("axpy")
    code = assemble(text_of("axpy").replace(before, after))
    changed = Function("axpy", "kernel", (2, 6), (3, 1), code)
    with pytest.raises(AirError, match=message):
        build.parse(changed, clang())


@ON_CPU
@pytest.mark.parametrize(("contents", "message"), [
    (b"", "expected a metallib"),
    (b"kernel void f() {}", "expected a header"),
    (b"MTLB", "expected a header"),
    (bytes(range(256)), "expected a header"),
])  # fmt: skip
def test_command_with_wrong_file(contents, message, tmp_path, capsys):
    path = tmp_path / "some.metallib"
    path.write_bytes(contents)
    assert main(["shader", str(path)]) == 1
    error = capsys.readouterr().err
    assert str(path) in error
    assert message in error


@ON_CPU
def test_command_with_binary_source(tmp_path, capsys):
    path = tmp_path / "some.metal"
    path.write_bytes(b"\xff\xfe\x00")
    assert main(["shader", str(path)]) == 1
    assert f"{path}: expected Metal source in UTF-8, or a metallib" in capsys.readouterr().err


@ON_CPU
def test_long_lists_of_names():
    """A library with thousands of kernels lists only some of them in messages."""
    functions = [Function(f"f{i:04}", "kernel", (2, 6), (3, 1), b"BC\xc0\xde") for i in range(1000)]
    library = mpsx.load_metallib(write(functions))
    with pytest.raises(AttributeError, match=r"no kernel named 'f0500x'; it has 1000 kernels, such as .*f0500, f0501"):
        library.f0500x  # noqa: B018
    assert len(repr(library)) < 200
    assert len(dir(library)) == 1000
