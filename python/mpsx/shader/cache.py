"""The disk cache of compiled shaders: `$MPSX_CACHE_DIR`, else `$XDG_CACHE_HOME/mpsx`, else `~/.cache/mpsx`.

Processes load code from the cache, so mpsx does not use a folder that another user owns or can write to. Every file is
written under a temporary name and then renamed. A record starts with a hash of its name and contents. Any other file is
named by the hash of its contents. Damaged, truncated, and swapped files are treated as missing and replaced.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import hashlib
import json
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    Result = TypeVar("Result")

DEFAULT_LIMIT = 1 << 30
RECENT_SECONDS = 60.0  # trim() keeps files used more recently, because a process may be about to load them
STALE_SECONDS = 3600.0  # trim() deletes temporary files older than this, left behind by crashed processes
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES)
ZIG_ERRORS = {errno.ENOSPC: "NoSpaceLeft", errno.EDQUOT: "DiskQuota", errno.EFBIG: "FileTooBig"}
PROBE_BYTES = 1 << 22  # larger than most compiler outputs
WRITABLE_BY_OTHERS = 0o022


def digest(*parts: bytes | str) -> str:
    """Hash a sequence of parts. Different splits of the same bytes give different hashes."""
    whole = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        whole.update(b"%d:" % len(data))
        whole.update(data)
    return whole.hexdigest()


def file_digest(path: str | Path) -> str:
    """Hash a file's contents."""
    with open(path, "rb", buffering=0) as file:
        whole = hashlib.sha256()
        while block := file.read(1 << 20):
            whole.update(block)
    return whole.hexdigest()


class Cache:
    """A folder of files with a limit on its total size."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit

    def subfolder(self, name: str, limit: int) -> Cache:
        """Return a subfolder with its own size limit."""
        (self.folder / name).mkdir(mode=0o700, exist_ok=True)
        return Cache(self.folder / name, limit)

    def path(self, name: str) -> Path:
        """Return the path for a file name. The file need not exist."""
        return self.folder / name

    def temporary(self) -> str:
        """Create a temporary folder on the cache's file system."""
        return tempfile.mkdtemp(prefix="tmp-", dir=self.folder)

    def publish(self, written: str | Path, name: str) -> Path:
        """Move a finished file into the cache, replacing a file of the same name."""
        os.replace(written, self.path(name))
        return self.path(name)

    def store(self, written: Path) -> Path:
        """Move a finished file into the cache, and name it by the hash of its contents."""
        return self.publish(written, file_digest(written) + written.suffix)

    def find(self, name: str) -> Path | None:
        """Return the file that `store` saved under this name, or None if it is missing or damaged."""
        path = self.path(name)
        try:
            if file_digest(path) != path.stem:
                return None
        except OSError:
            return None
        self.touch(path)
        return path

    def put(self, written: Path, name: str) -> Path:
        """Store a finished file under a name that can be passed to `get`."""
        path = self.store(written)
        self.write(f"{name}.json", {"file": path.name})
        return path

    def get(self, name: str) -> Path | None:
        """Return the file that `put` stored under this name, or None if it is missing or damaged."""
        record = self.read(f"{name}.json")
        if record is None:
            return None
        self.touch(self.path(f"{name}.json"))
        return self.find(record["file"])

    def read(self, name: str) -> dict | None:
        """Read a record. Return None if it is missing, damaged, or swapped with another record."""
        try:
            head, _, body = self.path(name).read_bytes().partition(b"\n")
        except OSError:
            return None
        return json.loads(body) if digest(name, body).encode() == head else None

    def write(self, name: str, record: dict) -> None:
        """Store a record. Do nothing if the cache folder is not writable."""
        body = json.dumps(record).encode()
        with contextlib.suppress(OSError):
            handle, path = tempfile.mkstemp(prefix="tmp-", dir=self.folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(digest(name, body).encode() + b"\n" + body)
                self.publish(path, name)
            except OSError:
                os.unlink(path)

    def touch(self, path: Path) -> None:
        """Record that a file was used just now."""
        with contextlib.suppress(OSError):
            os.utime(path)

    def trim(self) -> None:
        """Delete stale temporary files. If the cache exceeds its limit, also delete the least recently used files until
        it is at 80% of the limit."""
        now, files = time.time(), []
        for entry in os.scandir(self.folder):
            with contextlib.suppress(OSError):
                stat = entry.stat(follow_symlinks=False)
                if entry.name.startswith("tmp-"):
                    if now - stat.st_mtime > STALE_SECONDS:
                        _remove(Path(entry.path))
                elif entry.is_file(follow_symlinks=False):
                    files.append((stat.st_mtime, stat.st_size, entry.path))
        total = sum(size for _, size, _ in files)
        if total <= self.limit:
            return
        for used, size, path in sorted(files):
            if total <= self.limit * 4 // 5 or now - used < RECENT_SECONDS:
                break
            with contextlib.suppress(OSError):
                os.unlink(path)
                total -= size


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink()


def untrusted_reason(folder: Path) -> str:
    """Return why it is not safe to load code from a folder, or "" if it is safe."""
    stat = folder.stat()
    if stat.st_uid != os.geteuid():
        return f"user {stat.st_uid} owns it"
    if stat.st_mode & WRITABLE_BY_OTHERS:
        return f"other users can write to it (mode {stat.st_mode & 0o7777:04o})"
    return ""


_opened: dict[str, Cache] = {}


@functools.cache
def _warn(folder: Path, why: str) -> None:
    """Warn once that a cache folder is not used."""
    warnings.warn(f"mpsx: the cache folder {folder} is not used because {why}, and mpsx would load code from it. "
                  "This process compiles kernels into a private folder; set MPSX_CACHE_DIR to a folder of your own, or "
                  "delete this one.", stacklevel=3)  # fmt: skip


def current_cache() -> Cache:
    """Return the cache that the environment selects. If its folder is not writable or not trusted, return a private
    one."""
    named = os.environ.get("MPSX_CACHE_DIR")
    if not named:
        base = os.environ.get("XDG_CACHE_HOME")
        named = os.path.join(base if base and os.path.isabs(base) else os.path.expanduser("~/.cache"), "mpsx")
    limit = os.environ.get("MPSX_CACHE_SIZE", "")
    if limit and not limit.isdigit():
        raise ValueError(f"MPSX_CACHE_SIZE: expected a number of bytes, got {limit!r}")
    key, folder = f"{named}:{limit}", Path(os.path.abspath(named))
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for part in (folder, *(folder / name for name in ("kernels", "objects", "profiles"))):
            if part.is_dir() and (why := untrusted_reason(part)):
                _warn(part, why)
                return private()
        if (found := _opened.get(key)) is None:
            handle, probe = tempfile.mkstemp(prefix="tmp-", dir=folder)
            os.close(handle)
            os.unlink(probe)
            found = _opened[key] = Cache(folder, int(limit) if limit else DEFAULT_LIMIT)
        return found
    except OSError as error:
        reason = f"{folder}: {error.strerror}"
    try:
        return private()
    except OSError as error:
        raise _no_room(reason, f"{tempfile.gettempdir()}: {error.strerror}") from None


@functools.cache
def private() -> Cache:
    """Return a cache that only this process uses, and that is deleted at exit."""
    folder, owner = Path(tempfile.mkdtemp(prefix="mpsx-cache-")), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # don't delete it in a forked child
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return Cache(folder, DEFAULT_LIMIT)


def with_fallback_cache(cache: Cache, work: Callable[[Cache], Result]) -> Result:
    """Run `work` with a cache. If that cache is full or not writable, run it with a private cache.

    If neither is writable, raises RuntimeError, which names both folders.
    """
    try:
        return work(cache)
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        reason = f"{cache.folder}: {error.strerror}"
    try:
        return work(private())
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        raise _no_room(reason, f"{tempfile.gettempdir()}: {error.strerror}") from None


def check_room(folder: Path, status: int, errors: str) -> None:
    """Raise OSError if a compiler's exit status and messages indicate a full disk."""
    for number, in_zig in ZIG_ERRORS.items():
        if os.strerror(number) in errors or in_zig in errors:
            raise OSError(number, os.strerror(number))
    if status != 1 or "IO failure on output stream" in errors:  # a signal may come from a limit or a memory-mapped file
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            for _ in range(PROBE_BYTES >> 16):
                file.write(bytes(1 << 16))  # raises OSError


def _no_room(*reasons: str) -> RuntimeError:
    return RuntimeError(f"mpsx: no writable folder for compiled kernels: {'; '.join(reasons)}. Free some space, or set "
                        "MPSX_CACHE_DIR or TMPDIR to another folder")  # fmt: skip
