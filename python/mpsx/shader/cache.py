"""The disk cache of compiled shaders: `$MPSX_CACHE_DIR`, else `$XDG_CACHE_HOME/mpsx`, else `~/.cache/mpsx`.

It holds code that is loaded, so a folder that another user owns or can write to is not used. Every file is written
elsewhere and renamed into place. A record begins with the hash of its name and contents; any other file is named by the
hash of its contents. A damaged, half-written or exchanged file counts as missing, and is replaced.
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
RECENT_SECONDS = 60.0  # a file used so lately is about to be loaded, here or in another process, and stays
STALE_SECONDS = 3600.0  # a temporary file this old belongs to a process that is gone
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES)
ZIG_ERRORS = {errno.ENOSPC: "NoSpaceLeft", errno.EDQUOT: "DiskQuota", errno.EFBIG: "FileTooBig"}
PROBE_BYTES = 1 << 22  # more than an output of a compiler has, mostly
WRITABLE_BY_OTHERS = 0o022


def digest(*parts: bytes | str) -> str:
    """One hash of several parts; their boundaries count."""
    whole = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        whole.update(b"%d:" % len(data))
        whole.update(data)
    return whole.hexdigest()


def file_digest(path: str | Path) -> str:
    """The hash of a file's contents."""
    with open(path, "rb", buffering=0) as file:
        whole = hashlib.sha256()
        while block := file.read(1 << 20):
            whole.update(block)
    return whole.hexdigest()


class Cache:
    """A folder of files, bounded in size."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit

    def part(self, name: str, limit: int) -> Cache:
        """A folder within it, with a bound of its own."""
        (self.folder / name).mkdir(mode=0o700, exist_ok=True)
        return Cache(self.folder / name, limit)

    def path(self, name: str) -> Path:
        """Where the file of that name is, or would be."""
        return self.folder / name

    def temporary(self) -> str:
        """A new folder to write in, on the same file system."""
        return tempfile.mkdtemp(prefix="tmp-", dir=self.folder)

    def publish(self, written: str | Path, name: str) -> Path:
        """Moves a finished file to its place; another process may have put the same there."""
        os.replace(written, self.path(name))
        return self.path(name)

    def store(self, written: Path) -> Path:
        """Moves a finished file to where it is named by its contents."""
        return self.publish(written, file_digest(written) + written.suffix)

    def find(self, name: str) -> Path | None:
        """The file that `store` named so, if it is there and whole."""
        path = self.path(name)
        try:
            if file_digest(path) != path.stem:
                return None
        except OSError:
            return None
        self.touch(path)
        return path

    def put(self, written: Path, name: str) -> Path:
        """Stores a finished file under another name, which `get` knows."""
        path = self.store(written)
        self.write(f"{name}.json", {"file": path.name})
        return path

    def get(self, name: str) -> Path | None:
        """The file that was `put` under that name, if it is there and whole."""
        record = self.read(f"{name}.json")
        if record is None:
            return None
        self.touch(self.path(f"{name}.json"))
        return self.find(record["file"])

    def read(self, name: str) -> dict | None:
        """The record of that name; None where there is none or it is damaged, or another's."""
        try:
            head, _, body = self.path(name).read_bytes().partition(b"\n")
        except OSError:
            return None
        return json.loads(body) if digest(name, body).encode() == head else None

    def write(self, name: str, record: dict) -> None:
        """Stores a record; a cache that cannot be written to is none."""
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
        """Marks a file as used."""
        with contextlib.suppress(OSError):
            os.utime(path)

    def trim(self) -> None:
        """Removes what was not used for longest, until four fifths of the limit are left, and what crashes left."""
        now, files = time.time(), []
        for entry in os.scandir(self.folder):
            with contextlib.suppress(OSError):
                facts = entry.stat(follow_symlinks=False)
                if entry.name.startswith("tmp-"):
                    if now - facts.st_mtime > STALE_SECONDS:
                        _remove(Path(entry.path))
                elif entry.is_file(follow_symlinks=False):
                    files.append((facts.st_mtime, facts.st_size, entry.path))
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


def distrusted(folder: Path) -> str:
    """Why code from a folder must not be loaded; "" where it may be."""
    facts = folder.stat()
    if facts.st_uid != os.geteuid():
        return f"it belongs to the user with the id {facts.st_uid}"
    if facts.st_mode & WRITABLE_BY_OTHERS:
        return f"other users can write to it (its mode is {facts.st_mode & 0o7777:04o})"
    return ""


_opened: dict[str, Cache] = {}


@functools.cache
def _warn(folder: Path, why: str) -> None:
    """Says once that a folder is not used."""
    warnings.warn(f"mpsx: the cache folder {folder} is not used, since {why}, and the code in it would be loaded. "
                  "Kernels are compiled into a private folder for this process alone; set MPSX_CACHE_DIR to a folder "
                  "of your own, or remove this one.", stacklevel=3)  # fmt: skip


def current_cache() -> Cache:
    """The cache that the environment names now; a private folder where that one cannot be written to or trusted."""
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
            if part.is_dir() and (why := distrusted(part)):
                _warn(part, why)
                return private()
        if (found := _opened.get(key)) is None:
            handle, probe = tempfile.mkstemp(prefix="tmp-", dir=folder)
            os.close(handle)
            os.unlink(probe)
            found = _opened[key] = Cache(folder, int(limit) if limit else DEFAULT_LIMIT)
        return found
    except OSError as error:
        trouble = f"{folder}: {error.strerror}"
    try:
        return private()
    except OSError as error:
        raise _no_room(trouble, f"{tempfile.gettempdir()}: {error.strerror}") from None


@functools.cache
def private() -> Cache:
    """A cache of this process alone, which goes with it."""
    folder, owner = Path(tempfile.mkdtemp(prefix="mpsx-cache-")), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # and not in a fork
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return Cache(folder, DEFAULT_LIMIT)


def with_fallback_cache(cache: Cache, work: Callable[[Cache], Result]) -> Result:
    """The result of `work` in a cache, or in a private one where that one is full or cannot be written to.

    Raises RuntimeError that names both folders where neither can be written to."""
    try:
        return work(cache)
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        trouble = f"{cache.folder}: {error.strerror}"
    try:
        return work(private())
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        raise _no_room(trouble, f"{tempfile.gettempdir()}: {error.strerror}") from None


def check_room(folder: Path, status: int, said: str) -> None:
    """Raises OSError if a compiler that wrote to a folder failed for lack of room, by its status and its words."""
    for number, in_zig in ZIG_ERRORS.items():
        if os.strerror(number) in said or in_zig in said:
            raise OSError(number, os.strerror(number))
    if status != 1 or "IO failure on output stream" in said:  # a signal: of a limit, or of a mapped file
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            for _ in range(PROBE_BYTES >> 16):
                file.write(bytes(1 << 16))  # raises it


def _no_room(*trouble: str) -> RuntimeError:
    return RuntimeError(f"mpsx: no folder to write compiled kernels to: {'; '.join(trouble)}. Make room there, or set "
                        "MPSX_CACHE_DIR or TMPDIR to another folder")  # fmt: skip
