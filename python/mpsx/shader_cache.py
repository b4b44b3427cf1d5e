"""The disk cache of compiled shaders: `$MPSX_CACHE_DIR`, else `$XDG_CACHE_HOME/mpsx`, else `~/.cache/mpsx`.

Every file is written elsewhere and renamed into place, so that a crash or another process never leaves half of one, and
begins with (or is named by) the hash of its contents, so that a damaged one counts as missing.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import json
import os
import shutil
import tempfile
import time
from pathlib import Path

DEFAULT_LIMIT = 1 << 30
RECENT_SECONDS = 60.0  # a file used so lately is about to be loaded, here or in another process, and stays
STALE_SECONDS = 3600.0  # a temporary file this old belongs to a process that is gone


def digest(*parts: bytes | str) -> str:
    """One hash of several parts; their boundaries count."""
    whole = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        whole.update(b"%d:" % len(data))
        whole.update(data)
    return whole.hexdigest()


class Cache:
    """A folder of files, bounded in size."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit

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

    def read(self, name: str) -> dict | None:
        """The record of that name; None where there is none or it is damaged."""
        try:
            head, _, body = self.path(name).read_bytes().partition(b"\n")
        except OSError:
            return None
        if hashlib.sha256(body).hexdigest().encode() != head:
            return None
        return json.loads(body)

    def write(self, name: str, record: dict) -> None:
        """Stores a record; a cache that cannot be written to is none."""
        body = json.dumps(record).encode()
        with contextlib.suppress(OSError):
            handle, path = tempfile.mkstemp(prefix="tmp-", dir=self.folder)
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
            self.publish(path, name)

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
        for inner in path.iterdir():
            inner.unlink()
        path.rmdir()
    else:
        path.unlink()


_opened: dict[str, Cache] = {}


def cache() -> Cache:
    """The cache that the environment names now; a private folder where that one cannot be written to."""
    named = os.environ.get("MPSX_CACHE_DIR")
    if not named:
        base = os.environ.get("XDG_CACHE_HOME")
        named = os.path.join(base if base and os.path.isabs(base) else os.path.expanduser("~/.cache"), "mpsx")
    limit = os.environ.get("MPSX_CACHE_SIZE", "")
    if limit and not limit.isdigit():
        raise ValueError(f"MPSX_CACHE_SIZE: expected a number of bytes, got {limit!r}")
    key = f"{named}:{limit}"
    found = _opened.get(key)
    if found is None or not found.folder.is_dir():
        folder = Path(os.path.abspath(named))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle, probe = tempfile.mkstemp(prefix="tmp-", dir=folder)
            os.close(handle)
            os.unlink(probe)
        except OSError:
            return private()
        found = _opened[key] = Cache(folder, int(limit) if limit else DEFAULT_LIMIT)
    return found


@functools.cache
def private() -> Cache:
    """A cache of this process alone, which goes with it: where the other one cannot be written to."""
    folder, owner = Path(tempfile.mkdtemp(prefix="mpsx-cache-")), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # and not in a fork
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return Cache(folder, DEFAULT_LIMIT)
