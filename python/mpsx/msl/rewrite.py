"""Turns Metal's own syntax into C++: address spaces, attributes, literals. What each mode needs differently is an
argument, so that one walk over the tokens serves them all."""

import re

from .conditionals import mark
from .constant_vectors import VECTOR, constant_components
from .constants import function_constants
from .declarations import CLASS, declarations
from .overloads import duplicates, without_arguments_namespaces
from .parse import rename_overloads

DROPPED_SPACES = {"device", "thread", "ray_data", "object_data"}
WRITTEN = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--"}
KEPT_ATTRIBUTES = {"maybe_unused", "nodiscard", "fallthrough", "likely", "unlikely"}
FLOAT = re.compile(r"""(?P<value>(?:\d[\d']*\.[\d']*|\.\d[\d']*)(?:[eE][+-]?\d+)?|\d[\d']*[eE][+-]?\d+
    |0[xX][\da-fA-F.]*[pP][+-]?\d+)(?P<suffix>[fFhH]|bf|BF)?$""", re.X)
HALF_INTEGER = re.compile(r"(?P<value>\d+)(?P<suffix>[hH])$")


def literal(text):
    """Metal's floating literals: no suffix means float, h half, bf bfloat."""
    m = FLOAT.match(text) or HALF_INTEGER.match(text)
    if not m:
        return text
    suffix = (m["suffix"] or "").lower()
    value = m["value"] if re.search(r"[.eEpP]", m["value"]) else m["value"] + ".0"
    return {"h": f"half({value}f)", "bf": f"bfloat({value}f)"}.get(suffix, value + "f")


def swizzle_letters(word):
    return next((s for s in ("xyzw", "rgba") if set(word) <= set(s)), None)


def compose_swizzles(src):
    """`a.rgb.zy` becomes `a.bg`: the C++ swizzles have no swizzles of their own."""
    i = 1
    while i + 2 < len(src):
        first = src.texts[i]
        if src.texts[i - 1] in (".", "->") and 2 <= len(first) <= 4 and swizzle_letters(first):
            j, picked = i, first
            while src.texts[j + 1] == "." and len(src.texts[j + 2]) <= 4 and swizzle_letters(src.texts[j + 2]):
                letters = swizzle_letters(src.texts[j + 2])
                indices = [letters.index(c) for c in src.texts[j + 2]]
                if max(indices) >= len(picked):
                    raise src.error(j + 2, f"'.{src.texts[j + 2]}' of a vector of {len(picked)} components")
                picked = "".join(picked[k] for k in indices)
                j += 2
            if j > i:
                src.replace(i, j + 1, picked)
                i = j
        i += 1


def at_declaration(src, i):
    """The end of the declaration specifiers that token i is part of: where * & ; = , ( { or ) comes."""
    depth, j = 0, i
    while j < len(src):
        t = src.texts[j]
        depth += src.opens(j) - (t == ">")
        if src.specifier_end(j) > j:
            j = src.specifier_end(j)
            continue
        if depth < 0 or (depth == 0 and t in ("*", "&", ";", "=", ",", "(", ")", "{", "[")):
            return j
        j += 1
    return len(src)


def constant(src, i, depth):
    """The replacement of `constant` at token i."""
    if src.texts[i + 1] == ":":   # of a constructor's object
        return ""
    words = src.texts[i + 1:at_declaration(src, i)]
    before = i
    while before and src.texts[before - 1] in ("static", "constexpr", "const", "inline", "extern"):
        before -= 1
    words = src.texts[before:i] + words
    end = at_declaration(src, i)
    if src.texts[i - 1] == "*":   # constant half* constant table: a pointer that is constant itself
        return "const"
    pointer = src.texts[end] in ("*", "&") or src.texts[end:end + 2] in (["(", "*"], ["(", "&"])
    # constexpr makes a variable const, and of a pointer not what it points at.
    const = "" if "const" in words or ("constexpr" in words and not pointer) else "const"
    variable = depth == 0 and src.texts[end] not in ("*", "&", ")", ",", ">", "(")
    variable = variable and src.texts[end - 2] != "::"   # a member's definition outside of its class
    if not variable:
        return const
    return " ".join(filter(None, ["" if "static" in words else "static", const]))


def drop_alignment(src, begin, end):
    """Of a threadgroup variable: the engine aligns them all, and a typedef takes no alignas."""
    for j in range(begin, end):
        if src.specifier_end(j) > j:
            src.replace(j, src.specifier_end(j))


def share(src, i, first_key):
    """Turns the declaration of threadgroup variables at token i into references to memory of the threadgroup; returns
    how many there are. `threadgroup float a[32], b;` becomes typedefs and, after them, references of those types."""
    end, names = at_declaration(src, i), []
    before = src.match[i - 1] - 1 if src.texts[i - 1] == ")" else i   # alignas(16) threadgroup float a;
    drop_alignment(src, before, end)
    while True:
        name = end - 1
        if src.texts[name] == ")":   # float a __attribute__((aligned(16)));
            name = src.match[name] - 2
        while src.texts[end] == "[":
            end = src.match[end] + 1
        after = src.specifier_end(end)
        drop_alignment(src, end, after)
        end = after
        if src.texts[end] in ("=", "{"):   # Apple's compiler takes an initial value, and the memory has none
            stop = end
            while src.texts[stop] not in (",", ";"):
                stop = src.match[stop] + 1 if src.texts[stop] in "([{" else stop + 1
            src.replace(end, stop)
            end = stop
        if src.kinds[name] != "word" or src.texts[end] not in (",", ";"):
            raise src.error(end, f"threadgroup variable '{src.texts[name]}': expected ';' or ',', "
                            f"got '{src.texts[end]}'")
        names.append(name)
        if src.texts[end] == ";":
            break
        end += 2
    references = ""
    for k, name in enumerate(names, first_key):
        word = src.texts[name]
        src.replace(name, name + 1, f"mpsx_tg_{k}")
        references += f' mpsx_tg_{k}& {word} = ::mpsx::threadgroup_variable<mpsx_tg_{k}, {k}>("{word}");'
    src.replace(i, i + 1, "typedef")
    src.replace(end, end + 1, ";" + references)
    return len(names)


def vectors_of_swizzles(src, vectors):
    """Puts a call behind every swizzle that is read, which makes a vector of it: `auto q = v.xy; q.x`, `f(v.xy)`. Not
    where a class of the source has a member of that name, nor at the tokens `vectors`, which are vectors already."""
    own = {t for i, t in enumerate(src.texts) if src.kinds[i] == "word" and src.texts[i - 1] not in (".", "->")}
    for i in range(1, len(src) - 1):
        t = src.texts[i]
        if (2 <= len(t) <= 4 and src.texts[i - 1] in (".", "->") and swizzle_letters(t) and t not in own
                and i not in vectors and src.texts[i + 1] not in WRITTEN and src.texts[i + 1] not in (".", "[")):
            src.wrap(i, i + 1, "", "()")


def is_listed(src, d, tag):
    """Whether a class has constructors of its own, or is made of lists, which one with constructors could not be."""
    names = {tag, src.texts[d.end - 2]} - {"}"}   # typedef union { … } name;
    tags = [i for i, t in enumerate(src.texts) if t in names]
    return any(src.texts[i + 1] == "(" for i in tags if d.body < i < d.end) or any(
        "{" in (src.texts[i + 1], src.texts[i + 2]) or src.texts[i + 2:i + 4] == ["=", "{"] for i in tags
        if not d.begin <= i < d.body)


def lists_of_components(src):
    """`uint4 v = {a, b};` becomes a call, which adds what is missing."""
    for i, t in enumerate(src.texts):
        if t != "{" or src.texts[i - 1] != "=" or src.kinds[i - 2] != "word" or not VECTOR.match(src.texts[i - 3]):
            continue
        end = src.match[i]
        count = len(src.split(i + 1, end))
        if 1 < count < int(src.texts[i - 3][-1]) and "{" not in src.texts[i + 1:end] and src.texts[end - 1] != ",":
            src.replace(i, i + 1, f"::metal::mpsx_list_of<{src.texts[i - 3]}>(")
            src.replace(end, end + 1, ")")


def assignable_unions(src, found):
    """A union is copied and assigned as bytes, and so is a class with one in it: C++ would not, as vectors have copies
    and an assignment of their own."""
    for d in found:
        head = src.texts[d.begin:d.body] if d.kind == CLASS else ()
        if "union" not in head and (not head or "union" not in src.texts[d.body:d.end]):
            continue
        name = src.texts[d.name] if d.name >= 0 else ""
        if name and name not in head:
            continue
        if not name and "typedef" not in head:   # an anonymous member: it is assigned with what it is in
            continue
        tag, copy = name or f"mpsx_class_{d.begin}", "__builtin_memcpy(this, &mpsx_other, sizeof *this);"
        made = f"inline {tag}() = default; inline {tag}(const {tag}& mpsx_other) {{ {copy} }}"
        src.replace(d.body, d.body + 1,
                    f"{'' if name else tag} {{ {'' if is_listed(src, d, tag) else made} "
                    f"inline {tag}& operator=(const {tag}& mpsx_other) {{ {copy} return *this; }}")


def limits(src, module):
    """A limit on threads that depends on template arguments becomes a template beside the kernel."""
    for kernel in module.kernels.values():
        text = kernel.attributes.get("max_total_threads_per_threadgroup")
        if text is None:
            continue
        value = module.evaluator.text(text.split())
        if value is not None and not kernel.head:
            kernel.limit = str(value)
            continue
        kernel.limit = f"mpsx_limit_{kernel.name}"
        head = src.span(*kernel.head) if kernel.head else ""
        at = kernel.head[0] if kernel.head else kernel.marker
        src.before(at, f"{head} struct {kernel.limit} {{ static constexpr unsigned value = ({text}); }}; ")


def rewrite(src, module, kernel_word="inline", shared=False, general=False):
    """Edits `src` in place. `shared`: the threads of a threadgroup share its variables; else there is one thread.
    `general`: what the project's own kernels do without is allowed too."""
    found = declarations(src)
    for begin, end in module.removed:
        src.replace(begin, end)
    for begin, end in duplicates(src, found):
        src.replace(begin, end)
    for begin, end in module.markers:
        src.replace(begin, end, kernel_word)
    module.constants, module.setters, done = function_constants(src, found, module.evaluator)
    limits(src, module)
    rename_overloads(src, module)
    compose_swizzles(src)
    if general:
        vectors_of_swizzles(src, constant_components(src, found))
        without_arguments_namespaces(src, found)
        assignable_unions(src, found)
        lists_of_components(src)
        mark(src, {src.texts[d.name] for d in found if d.name >= 0 and src.texts[d.begin] == "template"}, done)
    namespaces = namespace_braces(src)
    keys, depth, i, around = 0, 0, 0, []   # depth counts brackets that are not namespaces
    while i < len(src):
        kind, t = src.kinds[i], src.texts[i]
        if i in done:
            i += 1
            continue
        if kind == "op":
            stop = src.attribute_end(i) if t == "[" else None
            if stop is not None:
                if not KEPT_ATTRIBUTES & set(src.texts[i:stop]):
                    src.replace(i, stop + 1)
                i = stop + 1
                continue
            if t in "([{" and i not in namespaces:
                depth += 1
                around.append(t)
            elif t in ")]}" and i not in namespaces:
                depth -= 1
                around.pop()
        elif kind == "number":
            new = literal(t)
            if new != t:
                src.replace(i, i + 1, new)
        elif kind == "word" and i and src.texts[i - 1] not in (".", "->"):
            if t in DROPPED_SPACES:
                src.replace(i, i + 1)
            elif t == "coherent" and src.texts[i + 1] in ("device", "("):   # coherent device T*, coherent(device) T*
                end = src.match[i + 1] + 1 if src.texts[i + 1] == "(" else i + 1
                src.replace(i, end)
                done |= set(range(i, end))
            elif t == "constant":
                src.replace(i, i + 1, constant(src, i, depth))
            elif t == "threadgroup":
                at = at_declaration(src, i)
                of_this = src.texts[i + 1] in ("{", ":", ";", "=")   # of a member function's object
                pointer = of_this or around[-1:] == ["("] or src.texts[at] in ("*", "&", ")", ",", ">")
                pointer = pointer or src.texts[at:at + 2] in (["(", "*"], ["(", "&"])
                if pointer or not shared:
                    src.replace(i, i + 1)
                else:
                    keys += share(src, i, keys)
            elif t == "double":
                raise src.error(i, "Metal has no double")
        elif kind == "word" and t in DROPPED_SPACES | {"constant"}:
            src.replace(i, i + 1, "" if t != "constant" else constant(src, i, depth))
        i += 1


def namespace_braces(src):
    """Tokens of the braces that belong to namespaces."""
    found = set()
    for i, t in enumerate(src.texts):
        if t == "namespace" and src.kinds[i] == "word" and (i == 0 or src.texts[i - 1] != "using"):
            brace = i + 1
            while src.texts[brace] not in ("{", ";", "="):
                brace += 1
            if src.texts[brace] == "{":
                found |= {brace, src.match[brace]}
    return found
