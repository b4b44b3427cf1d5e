"""A process that has imported torch, and forks the processes that run tests' code.

Importing torch takes most of the time of a short child process. `processes.run_in_subprocess` therefore starts one
template for all of them, and `run_compiled` another one that has also imported Inductor. A template does not load mpsx,
so each fork loads it with its own environment variables.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

# The dynamic linker, Python, and torch read variables with these prefixes when a process starts or imports torch.
STARTUP = ("LD_", "DYLD_", "PYTHON", "OMP_", "KMP_", "MKL_", "OPENBLAS_", "MALLOC_", "GLIBC_", "TORCH_", "CUDA_")


def startup_variables(environment: dict[str, str]) -> dict[str, str]:
    """Return the variables that a fork of the template cannot change anymore."""
    return {name: value for name, value in environment.items() if name.startswith(STARTUP)}


class Template:
    """A process to fork, which starts with the given environment variables and imports `modules` after torch, and the
    socket through which it receives the code to run."""

    def __init__(self, environment: dict[str, str], *modules: str) -> None:
        self.owner, self.startup = os.getpid(), startup_variables(environment)
        self.socket, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__)), str(theirs.fileno()), *modules], pass_fds=[theirs.fileno()],
                env=environment | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}, stdin=subprocess.DEVNULL)  # fmt: skip
        atexit.register(self.close)

    def can_run(self, environment: dict[str, str]) -> bool:
        """Return whether a fork can have these environment variables."""
        return os.getpid() == self.owner and startup_variables(environment) == self.startup

    def run(self, code: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Run code in a fork with the given environment variables. Capture the output as text."""
        request = json.dumps({"code": code, "environment": environment, "folder": os.getcwd()}).encode()
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
            socket.send_fds(self.socket, [len(request).to_bytes(8, "little")], [out.fileno(), errors.fileno()])
            self.socket.sendall(request)
            reply = self.socket.recv(8)
            assert reply, "the template process has ended"
            out.seek(0)
            errors.seek(0)
            status = os.waitstatus_to_exitcode(int(reply))
            return subprocess.CompletedProcess(code, status, out.read(), errors.read())

    def close(self) -> None:
        if os.getpid() == self.owner:
            self.socket.close()
            self.process.wait()


def receive(channel: socket.socket) -> tuple[dict, list[int]] | None:
    """Wait for a request. Return it with the files for its output, or None at the end."""
    size, files, _, _ = socket.recv_fds(channel, 8, 2)
    text, wanted = b"", int.from_bytes(size, "little")
    while len(text) < wanted:
        text += channel.recv(wanted - len(text))
    return (json.loads(text), files) if size else None


def serve(channel: socket.socket) -> dict | None:
    """Fork a process for each request. Return the request in the fork, and None in the template at the end."""
    while received := receive(channel):
        request, files = received
        child = os.fork()
        if child == 0:
            channel.close()
            for number, file in enumerate(files, 1):
                os.dup2(file, number)
                os.close(file)
            return request
        for file in files:
            os.close(file)
        channel.sendall(str(os.waitpid(child, 0)[1]).encode())
    return None


if __name__ == "__main__":
    import torch

    for module in sys.argv[2:]:
        importlib.import_module(module)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    request = serve(socket.socket(fileno=int(sys.argv[1])))
    if request is None:
        sys.exit()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv, sys.path[0] = ["-c"], ""
    torch._import_device_backends()
    code = compile(request["code"], "<string>", "exec")
    for name in [name for name in globals() if not name.startswith("__") and name != "code"]:
        del globals()[name]
    del __file__
    exec(code)
