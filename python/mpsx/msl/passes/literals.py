"""Floating-point literals. In Metal, a literal without a suffix is a float. The suffix h means half, and bf bfloat."""

import re

FLOAT = re.compile(r"""(?P<value>(?:\d[\d']*\.[\d']*|\.\d[\d']*)(?:[eE][+-]?\d+)?|\d[\d']*[eE][+-]?\d+
    |0[xX][\da-fA-F.]*[pP][+-]?\d+)(?P<suffix>[fFhH]|bf|BF)?$""", re.X)
HALF_INTEGER = re.compile(r"(?P<value>\d+)(?P<suffix>[hH])$")


def literal(text):
    """Convert a number to its C++ spelling."""
    m = FLOAT.match(text) or HALF_INTEGER.match(text)
    if not m:
        return text
    suffix = (m["suffix"] or "").lower()
    value = m["value"] if re.search(r"[.eEpP]", m["value"]) else m["value"] + ".0"
    return {"h": f"half({value}f)", "bf": f"bfloat({value}f)"}.get(suffix, value + "f")
