"""The kernels of a large source, or of one with function constants. Each is compiled into its own library on first
use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .cache import Cache, digest, with_fallback_cache
from .compiler import Builder
from .toolchain import Target

if TYPE_CHECKING:
    from ..msl.passes.function_constants import Definition


@dataclass(frozen=True)
class LazyKernels:
    """A translated source, plus the code to append to it to export each kernel."""

    cache: Cache
    target: Target
    name: str  # name of the source in messages
    key: str
    source: str
    exports: dict[str, str]
    constants: list[dict]  # the function constants of the source: {name, index, type}
    definitions: list[Definition]  # of the function constants, and of the constants that depend on them

    def library(self, kernel: str, values: dict[int, str]) -> str:
        """Return the path of the library of a kernel that is specialized for the initializers `values` of function
        constants (constants.initializers). Compiles the library if it is not in the cache."""
        name = f"{self.key}-{digest(kernel, *(f'{i}={value}' for i, value in sorted(values.items())))[:16]}"

        def compiled(cache: Cache) -> str:
            found = cache.get(name)
            if found is None:
                exports = "".join(d.text(values) for d in self.definitions) + self.exports[kernel]
                found = Builder(cache, self.target, [], self.name, "").build_kernel(self.source, exports, kernel, name)
            return str(found)

        return with_fallback_cache(self.cache, compiled)
