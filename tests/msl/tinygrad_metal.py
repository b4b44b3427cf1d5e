"""A replacement for tinygrad.runtime.ops_metal that implements tinygrad's METAL device with mpsx.

tinygrad's Metal renderer generates the kernels. mpsx.compile_shader compiles and runs them.
"""

from __future__ import annotations

import sys
import types

import torch
from tinygrad.device import Compiled, Compiler, LRUAllocator, Program
from tinygrad.renderer.cstyle import MetalRenderer

import mpsx

sources: dict[str, str] = {}  # source text -> name of its compiled kernel


class MetalCompiler(Compiler):
    def __init__(self) -> None:
        super().__init__(None)  # pass no disk cache, so that this module compiles every kernel


class MetalProgram(Program):
    def __init__(self, dev: MetalDevice, obj: object) -> None:
        text = obj.lib.decode()
        sources[text] = obj.name
        self.kernel = getattr(mpsx.compile_shader(text), obj.name)

    def __call__(self, *bufs: torch.Tensor, global_size: tuple = (1, 1, 1), local_size: tuple = (1, 1, 1),
                 vals: tuple = (), wait: bool = False, **_: object) -> float:  # fmt: skip
        threads = [g * n for g, n in zip(global_size, local_size, strict=True)]
        casts = {len(bufs) + i: "int32" for i in range(len(vals))}
        self.kernel(*bufs, *vals, threads=threads, group_size=list(local_size), arg_casts=casts or None)
        return 1e-6


class MetalAllocator(LRUAllocator):
    def __init__(self, dev: MetalDevice) -> None:
        super().__init__(dev, supports_copy_from_disk=False, supports_transfer=False)

    def _alloc(self, size: int, options: object) -> torch.Tensor:
        return torch.empty(size, dtype=torch.uint8, device="mpsx")

    def _copyin(self, dest: torch.Tensor, src: memoryview) -> None:
        dest.copy_(torch.frombuffer(bytearray(src), dtype=torch.uint8))

    def _copyout(self, dest: memoryview, src: torch.Tensor) -> None:
        dest[:] = memoryview(src.cpu().numpy())

    def _offset(self, buf: torch.Tensor, size: int, offset: int) -> torch.Tensor:
        return buf[offset : offset + size]


class MetalDevice(Compiled):
    def __init__(self, device: str) -> None:
        super().__init__(device, MetalAllocator(self), [MetalRenderer], MetalProgram, None, arch="Apple9")


def install() -> None:
    """Register this module as tinygrad's METAL device."""
    module = types.ModuleType("tinygrad.runtime.ops_metal")
    module.MetalDevice, module.MetalCompiler = MetalDevice, MetalCompiler
    for c in (MetalDevice, MetalCompiler):
        c.__module__ = module.__name__
    sys.modules[module.__name__] = module
