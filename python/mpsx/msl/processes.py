"""Run compilers with a time limit, and kill them when the calling process ends, even if it is killed.

Each compiler leads a process group that contains all processes it starts (zig starts clang, and a script may start a
compiler). Each calling process starts a small shell, the reaper, which keeps a list of the groups. The shell's standard
input is a socket whose other end only the caller holds. When the caller ends, the shell reads end-of-file and kills the
groups. A compiler starts working only after the shell has registered it, so none escapes."""

import atexit
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import threading
import time

DEFAULT_SECONDS = 120.0
REAPER = """trap '' HUP INT QUIT TERM
groups=
while read -r sign group; do
  rest=
  for one in $groups; do [ "$one" = "$group" ] || rest="$rest $one"; done
  case $sign in +) groups="$rest $group" ;; *) groups=$rest ;; esac
done
for group in $groups; do kill -KILL "-$group"; done
"""
START = 'read -r go && exec "$@"'


class TimeLimitError(Exception):
    """A compiler exceeded its time limit."""

    def __init__(self, seconds):
        super().__init__(f"the compiler was stopped after {seconds:g} seconds, the limit of MPSX_SHADER_TIMEOUT")


def time_limit():
    """Return the time limit for a compiler in seconds, from MPSX_SHADER_TIMEOUT. Return None (no limit) if it is 0."""
    text = os.environ.get("MPSX_SHADER_TIMEOUT") or str(DEFAULT_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise ValueError(f"MPSX_SHADER_TIMEOUT: expected a number of seconds, got {text!r}")
    return seconds if 0 < seconds < threading.TIMEOUT_MAX else None


class _Reaper:
    """The shell that kills this process's compilers after the process ends."""

    def __init__(self):
        self.forget()

    def forget(self):
        """Reset the state after a fork, because the shell is a child of the parent process."""
        self.lock, self.socket, self.process = threading.Lock(), None, None

    def send(self, line):
        with self.lock:
            for _ in range(2):   # retry once if the shell was killed
                if self.socket is None and line.startswith("-"):
                    return None
                if self.socket is None:
                    self.launch()
                try:
                    return self.socket.sendall(line.encode(), getattr(socket, "MSG_NOSIGNAL", 0))
                except OSError:
                    self.close()
        return None

    def launch(self):
        self.socket, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(["/bin/sh", "-c", REAPER], stdin=theirs, stdout=subprocess.DEVNULL,
                                            stderr=subprocess.DEVNULL, start_new_session=True, cwd="/")

    def close(self):
        """End the shell, which then kills the compilers that are still running."""
        if self.socket is not None:
            self.socket.close()
            self.process.wait()
            self.socket = self.process = None


_reaper = _Reaper()
atexit.register(_reaper.close)


def _after_fork():
    if _reaper.socket is not None:
        _reaper.socket.close()
        _reaper.process.returncode = 0   # the shell is not a child of this process, so do not wait for it
    _reaper.forget()


os.register_at_fork(after_in_child=_after_fork)


class Process(subprocess.Popen):
    """A running compiler. `seconds` is its time limit (None: no limit). Call `finish` or `end` on every Process."""

    def __init__(self, command, seconds=None, **pipes):
        if shutil.which(command[0]) is None:
            raise FileNotFoundError(2, os.strerror(2), command[0])
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE} | pipes
        self.is_read = False
        self.seconds, self.until = seconds, None if seconds is None else time.monotonic() + seconds
        super().__init__(["/bin/sh", "-c", START, "sh", *command], stdin=subprocess.PIPE, encoding="utf-8",
                         errors="replace", start_new_session=True, **pipes)
        _reaper.send(f"+ {self.pid}\n")
        with contextlib.suppress(BrokenPipeError):
            self.stdin.write("go\n")
            self.stdin.flush()

    def finish(self, text=""):
        """Send the input, wait, and return standard output and standard error. Raises TimeLimitError."""
        self.is_read = True
        try:
            return self.communicate(text, None if self.until is None else max(0, self.until - time.monotonic()))
        except BaseException as error:
            self.is_read = False
            if isinstance(error, subprocess.TimeoutExpired):
                raise TimeLimitError(self.seconds) from None
            raise
        finally:
            self.end()

    def end(self):
        """Kill the process group unless the process has already ended."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self.wait()
        _reaper.send(f"- {self.pid}\n")
        for pipe in () if self.is_read else (self.stdin, self.stdout, self.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def with_caches_in(folder):
    """Return the environment for zig's driver with its cache in `folder`. The home directory may be full."""
    return os.environ | dict.fromkeys(("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"), os.path.join(folder, "zig"))


def run(command, text="", seconds=None, **more):
    """Run a compiler. Return its status, standard output, and standard error."""
    process = Process(command, seconds, stdout=subprocess.PIPE, **more)
    out, err = process.finish(text)
    return process.returncode, out, err
