"""Compiler processes. They end with the process that started them, even one that is killed, and have a time limit.

Each is the leader of a process group, which holds what it starts in turn (zig starts clang, a script a compiler). One
small shell for each calling process knows the groups that run. Its standard input is a socket whose other end only the
caller has: it reads the end of it when the caller is gone, and kills the groups. A compiler waits until the shell knows
of it, so that none escapes."""

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
    """A compiler was stopped after so many seconds."""

    def __init__(self, seconds):
        super().__init__(f"the compiler was stopped after {seconds:g} seconds, the limit of MPSX_SHADER_TIMEOUT")


def time_limit():
    """Seconds that a compiler may take, from MPSX_SHADER_TIMEOUT; None for 0, which is no limit."""
    text = os.environ.get("MPSX_SHADER_TIMEOUT") or str(DEFAULT_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise ValueError(f"MPSX_SHADER_TIMEOUT: expected a number of seconds, got {text!r}")
    return seconds if 0 < seconds < threading.TIMEOUT_MAX else None


class _Reaper:
    """The shell that kills this process's compilers once it is gone."""

    def __init__(self):
        self.forget()

    def forget(self):
        """In a fork: the shell is the parent's."""
        self.lock, self.socket, self.process = threading.Lock(), None, None

    def tell(self, line):
        with self.lock:
            for _ in range(2):   # once more if the shell was killed
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
        """Ends the shell, and with it the compilers that still run."""
        if self.socket is not None:
            self.socket.close()
            self.process.wait()
            self.socket = self.process = None


_reaper = _Reaper()
atexit.register(_reaper.close)


def _forget_in_a_fork():
    if _reaper.socket is not None:
        _reaper.socket.close()
        _reaper.process.returncode = 0   # not a child of this process: there is nothing to wait for
    _reaper.forget()


os.register_at_fork(after_in_child=_forget_in_a_fork)


class Process(subprocess.Popen):
    """A running compiler. `seconds`: its time limit, None for none. `finish` or `end` must be called in the end."""

    def __init__(self, command, seconds=None, **pipes):
        if shutil.which(command[0]) is None:
            raise FileNotFoundError(2, os.strerror(2), command[0])
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE} | pipes
        self.is_read = False
        self.seconds, self.until = seconds, None if seconds is None else time.monotonic() + seconds
        super().__init__(["/bin/sh", "-c", START, "sh", *command], stdin=subprocess.PIPE, encoding="utf-8",
                         errors="replace", start_new_session=True, **pipes)
        _reaper.tell(f"+ {self.pid}\n")
        with contextlib.suppress(BrokenPipeError):
            self.stdin.write("go\n")
            self.stdin.flush()

    def finish(self, text=""):
        """Gives it its input; what it wrote to standard output and to standard error. Raises TimeLimitError."""
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
        """Ends it, unless it has ended, with all that it started."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self.wait()
        _reaper.tell(f"- {self.pid}\n")
        for pipe in () if self.is_read else (self.stdin, self.stdout, self.stderr):  # else `communicate` closes them
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def with_caches_in(folder):
    """The environment for zig's own driver, which keeps a cache in the home directory: that may be full."""
    return os.environ | dict.fromkeys(("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"), os.path.join(folder, "zig"))


def run(command, text="", seconds=None, **more):
    """Runs a compiler to its end: its status, standard output and standard error."""
    process = Process(command, seconds, stdout=subprocess.PIPE, **more)
    out, err = process.finish(text)
    return process.returncode, out, err
