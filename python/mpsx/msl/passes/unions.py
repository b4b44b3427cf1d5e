"""Make unions with vectors assignable."""

from ..declarations import CLASS


def has_initializer_list(src, d, tag):
    """Return whether a class has constructors or is initialized from lists. Adding constructors would break list
    initialization."""
    names = {tag, src.texts[d.end - 2]} - {"}"}   # typedef union { … } name;
    tags = [i for i, t in enumerate(src.texts) if t in names]
    return any(src.texts[i + 1] == "(" for i in tags if d.body < i < d.end) or any(
        "{" in (src.texts[i + 1], src.texts[i + 2]) or src.texts[i + 2:i + 4] == ["=", "{"] for i in tags
        if not d.begin <= i < d.body)


def make_unions_assignable(src, unit):
    """Give unions, and classes that contain a union, a copy constructor and a copy assignment that copy bytes. C++
    deletes the implicit ones, because vectors define their own."""
    for d in unit.of_kind(CLASS):
        head = src.texts[d.begin:d.body]
        if "union" not in head and "union" not in src.texts[d.body:d.end]:
            continue
        name = src.texts[d.name] if d.name >= 0 else ""
        if not name and "typedef" not in head:  # anonymous members are assigned as part of the enclosing class
            continue
        tag, copy = name or f"mpsx_class_{d.begin}", "__builtin_memcpy(this, &mpsx_other, sizeof *this);"
        constructors = f"inline {tag}() = default; inline {tag}(const {tag}& mpsx_other) {{ {copy} }}"
        src.replace(d.body, d.body + 1,
                    f"{'' if name else tag} {{ {'' if has_initializer_list(src, d, tag) else constructors} "
                    f"inline {tag}& operator=(const {tag}& mpsx_other) {{ {copy} return *this; }}")
