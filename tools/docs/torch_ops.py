"""Generate the page on torch.ops.mpsx: the schemas of all explicit operators in the installed package."""

from __future__ import annotations

import torch


def schemas() -> str:
    """Return the schemas, one per line."""
    import mpsx  # noqa: F401

    found = [schema for schema in torch._C._jit_get_all_schemas() if schema.name.startswith("mpsx::")]
    lines = sorted(str(schema).removeprefix("mpsx::") for schema in found if not schema.name.startswith("mpsx::_"))
    return "\n".join(("```text", *lines, "```"))
