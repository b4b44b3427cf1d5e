"""The kernels of a large source, each a library of its own that is compiled when it is first asked for."""

from __future__ import annotations

from dataclasses import dataclass

from . import shader_build, shader_cache
from .shader_cache import Cache, digest


@dataclass(frozen=True)
class Parts:
    """A translated source, and for each of its kernels the text behind it that exports it."""

    store: Cache
    target: shader_build.Target
    name: str  # of the source, for messages
    key: str
    source: str
    exports: dict[str, str]

    @classmethod
    def of(cls, record: dict, *where: object) -> Parts | None:
        """Those of a record of shader_build.lookup, if its kernels are compiled one by one."""
        return cls(*where, record["source"], record["exports"]) if "exports" in record else None

    def library(self, kernel: str) -> str:
        """The path of the library of a kernel."""
        from .shader_compiler import Builder

        name = f"{self.key}-{digest(kernel)[:16]}"

        def compiled(store: Cache) -> str:
            found = store.get(name)
            if found is None:
                builder = Builder(store, self.target, [], self.name, "")
                found = builder.build_part(self.source, self.exports[kernel], kernel, name)
            return str(found)

        return shader_cache.with_room(self.store, compiled)
