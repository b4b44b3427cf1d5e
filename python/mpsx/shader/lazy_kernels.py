"""The kernels of a large source. Each is compiled into its own library on first use."""

from __future__ import annotations

from dataclasses import dataclass

from .cache import Cache, digest, with_fallback_cache
from .compiler import Builder
from .toolchain import Target


@dataclass(frozen=True)
class LazyKernels:
    """A translated source, plus the code to append to it to export each kernel."""

    cache: Cache
    target: Target
    name: str  # name of the source in messages
    key: str
    source: str
    exports: dict[str, str]

    def library(self, kernel: str) -> str:
        """Return the path of a kernel's library. Compiles the library if it is not in the cache."""
        name = f"{self.key}-{digest(kernel)[:16]}"

        def compiled(cache: Cache) -> str:
            found = cache.get(name)
            if found is None:
                builder = Builder(cache, self.target, [], self.name, "")
                found = builder.build_kernel(self.source, self.exports[kernel], kernel, name)
            return str(found)

        return with_fallback_cache(self.cache, compiled)
