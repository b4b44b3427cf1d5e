"""A second process that compiles backward graphs (backward_process.py). It does not use the device."""

from __future__ import annotations

import functools
import logging
import os
import pickle
import queue
import subprocess
import sys
import threading
import traceback
import warnings
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from typing import Any

import torch
from torch._inductor import codecache, compile_fx, config
from torch._inductor.utils import clear_caches, python_subprocess_env
from torch._ops import OpOverload
from torch._subclasses import FakeTensorMode
from torch.fx._graph_pickler import GraphPickler
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from .. import _runtime
from ..msl import processes
from . import kernels, preloading

log = logging.getLogger(__name__)
IDLE_SECONDS = 60
POLL_SECONDS = 1  # how often to check that the process still runs
# PyTorch's global settings, besides the ones in Settings, that are part of the key of a graph in Inductor's cache.
ATTRIBUTES = (
    (torch.backends.cuda.matmul, "fp32_precision"),
    (torch.backends.cuda.matmul, "allow_fp16_reduced_precision_reduction"),
    (torch.backends.cuda.matmul, "allow_bf16_reduced_precision_reduction"),
    (torch.utils.deterministic, "fill_uninitialized_memory"),
)
_calls: list[Call] = []  # calls of eager operators in the current graph


@dataclass(frozen=True)
class Settings:
    """PyTorch's global settings that are part of the key of a graph in Inductor's cache."""

    deterministic: bool
    warn_only: bool
    default_dtype: torch.dtype
    threads: int
    attributes: tuple[Any, ...]  # values of ATTRIBUTES

    @classmethod
    def current(cls) -> Settings:
        """Return this process's settings."""
        return cls(torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled(),
                   torch.get_default_dtype(), torch.get_num_threads(),
                   tuple(getattr(*attribute) for attribute in ATTRIBUTES))  # fmt: skip

    def set(self) -> None:
        """Use these settings."""
        torch.use_deterministic_algorithms(self.deterministic, warn_only=self.warn_only)
        torch.set_default_dtype(self.default_dtype)
        torch.set_num_threads(self.threads)
        for attribute, value in zip(ATTRIBUTES, self.attributes, strict=True):
            setattr(*attribute, value)


@dataclass(frozen=True)
class Job:
    """A backward graph to compile."""

    arguments: bytes  # of compile_fx_backward, from GraphPickler
    config: dict[str, Any]  # of Inductor
    environment: dict[str, str]
    settings: Settings
    torch_key: bytes  # a hash of PyTorch's sources, which takes time to compute
    system: Any  # PyTorch's description of the CUDA device; querying it would initialize CUDA


@dataclass(frozen=True)
class Call:
    """The call of an operator with layouts for tensors."""

    op: tuple[str, ...]  # namespace, name, and overload
    args: Any
    kwargs: Any

    @classmethod
    def of(cls, op: OpOverload, args: Any, kwargs: Any) -> Call:
        """Return the call of an operator."""
        return cls((op.namespace, op._opname, op._overloadname), args, kwargs)

    def unpack(self) -> tuple[OpOverload, Any, Any]:
        """Return the operator and its arguments."""
        return functools.reduce(getattr, self.op, torch.ops), self.args, self.kwargs


@dataclass(frozen=True)
class Compiled:
    """The results of a compilation that are not in the caches."""

    calls: list[Call]  # of eager operators, whose kernels are not loaded yet
    warnings: list[warnings.WarningMessage]


class Process:
    """A process that compiles graphs. It ends after IDLE_SECONDS without a job."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.jobs: queue.SimpleQueue[tuple[Future, bytes]] = queue.SimpleQueue()
        self.child: processes.Process | None = None
        self.runs = False  # whether a thread passes jobs to the process
        self.failed = False  # whether it has ended unexpectedly, in which case no other one is started

    def start(self) -> None:
        """Start the process, unless it runs or has failed."""
        with self.lock:
            if not self.runs and not self.failed:
                threading.Thread(target=self._run, name="mpsx-compile-process", daemon=True).start()
                self.runs = True

    def submit(self, job: bytes) -> Future:
        """Return the Compiled of a pickled Job. It can be cancelled until the process is ready for it."""
        future: Future = Future()
        self.jobs.put((future, job))
        self.start()
        if self.failed:
            self._cancel_jobs()
        return future

    def _cancel_jobs(self) -> None:
        with suppress(queue.Empty):
            while True:
                self.jobs.get_nowait()[0].cancel()

    def _run(self) -> None:
        child = None
        try:
            connection, theirs = Pipe()
            with connection, theirs:
                command = f"from {__name__} import serve; serve({theirs.fileno()})"
                child = self.child = processes.Process(
                    [sys.executable, "-c", command], pass_fds=[theirs.fileno()], stderr=subprocess.DEVNULL,
                    env=python_subprocess_env() | {"TORCH_WARM_POOL": "0"})  # fmt: skip
                theirs.close()
                connection.send(_runtime.driver())
                self._receive(connection)
                while self._pass_job(connection):
                    pass
        except Exception:
            log.debug("The process that compiles backward graphs has failed", exc_info=True)
            self.failed, self.runs = True, False
            self._cancel_jobs()
        if child:
            child.end()

    def _pass_job(self, connection: Connection) -> bool:
        """Pass the next job to the process, and receive its result. Return false if there is no job."""
        try:
            future, job = self.jobs.get(timeout=IDLE_SECONDS)
        except queue.Empty:
            with self.lock:
                self.runs = not self.jobs.empty()
                return self.runs
        if future.set_running_or_notify_cancel():
            try:
                connection.send_bytes(job)
                result = self._receive(connection)
            except Exception as error:
                future.set_exception(error)
                raise
            if isinstance(result, Compiled):
                future.set_result(result)
            else:
                future.set_exception(RuntimeError(result))
        return True

    def _receive(self, connection: Connection) -> Any:
        """Receive an object. Raise EOFError if the process has ended, even if a fork has inherited its connection."""
        while not connection.poll(POLL_SECONDS):
            if self.child.poll() is not None:
                raise EOFError
        return connection.recv()


def serve(descriptor: int) -> None:
    """Compile graphs until the other process closes the connection or kills this one."""
    connection = Connection(descriptor)
    with suppress(EOFError, BrokenPipeError):
        replace_device(connection.recv())
        connection.send("ready")
        while True:
            job = connection.recv_bytes()
            try:
                result = pickle.dumps(compile_backward(pickle.loads(job)))
            except Exception:
                result = pickle.dumps(traceback.format_exc())
            connection.send_bytes(result)
    os._exit(0)  # without waiting for the device


def replace_device(driver: dict[str, Any]) -> None:
    """Compile for the other process's driver without starting it: do not load libraries, and only collect the calls of
    eager operators."""
    _runtime.driver, _runtime.driver_started = lambda: driver, lambda: True
    kernels.compiled = kernels.built
    preloading.start = lambda *call: _calls.append(Call.of(*call))


def compile_backward(job: Job) -> Compiled:
    """Compile a backward graph, and wait for its kernel libraries."""
    os.environ.update(job.environment)
    clear_caches()  # the folder may have changed
    job.settings.set()
    codecache.torch_key, codecache.CacheBase.get_system = lambda: job.torch_key, lambda: job.system
    _calls.clear()
    mode = FakeTensorMode(shape_env=ShapeEnv())
    gm, inputs, extra, options = GraphPickler.loads(job.arguments, mode)
    with (config.patch(job.config), torch.no_grad(), torch._guards.tracing(torch._guards.TracingContext(mode)),
          warnings.catch_warnings(record=True) as messages):  # fmt: skip
        inner_compile = functools.partial(compile_fx.compile_fx_inner, **options)
        graph = compile_fx.compile_fx_backward(gm, inputs, compiler_config_extra=extra, inner_compile=inner_compile)
        for library in kernels.started():
            library.result()
        del graph  # and with it, its libraries
    return Compiled([*_calls], messages)
