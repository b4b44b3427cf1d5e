"""Finds kernels and their instantiations in a token stream."""

import ast
import re
from dataclasses import dataclass, field

from .constants import Evaluator
from .deduction import template_arguments

SPACES = ("device", "constant", "threadgroup")
UNSUPPORTED = ("texture", "sampler", "imageblock", "payload", "visible_function_table", "stage_in")


@dataclass
class Parameter:
    token: int          # where it starts, for messages
    text: str
    space: str          # device, constant, threadgroup or ""
    shape: str          # "*", "&" or "" (by value)
    attributes: dict    # name -> argument text
    index: int = -1     # buffer or threadgroup index


@dataclass
class Kernel:
    name: str           # in the translated code: of an overload, one of its own
    token: int
    is_template: bool
    parameters: list
    attributes: dict
    body: tuple         # token range of { ... }
    scope: tuple        # enclosing namespaces
    has_threadgroup_variables: bool = False   # set by threadgroup_bytes.py
    head: tuple = ()    # token range of template <...>
    marker: int = 0     # the `kernel`, or the [[ of its attribute
    overload_of: str = ""   # the source's name of all but the first of several templates of one name
    limit: str = ""     # what stands for max_total_threads_per_threadgroup where template arguments decide


@dataclass
class Instance:
    """One compiled kernel: a host name and the C++ expression that names the function."""
    host_name: str
    expression: str
    kernel: Kernel
    scope: tuple
    token: int
    signature: list | None = None   # token ranges of the parameters, where the instantiation repeats them


@dataclass
class Module:
    kernels: dict = field(default_factory=dict)
    instances: list = field(default_factory=list)
    removed: list = field(default_factory=list)   # token ranges of instantiations
    markers: list = field(default_factory=list)   # token ranges of `kernel` / [[kernel]]
    evaluator: Evaluator = None
    aliases: dict = None   # of types with an address space, once somebody has asked


def attributes(src, begin, end):
    """Attributes in tokens [begin, end) as a dict, and the tokens outside of them."""
    found, rest, i = {}, [], begin
    while i < end:
        stop = src.attribute_end(i)
        if stop is None:
            rest.append(i)
            i += 1
            continue
        for begin_one, end_one in src.split(i + 2, stop - 1):
            scoped = end_one - begin_one > 2 and src.texts[begin_one + 1] == "::"   # [[clang::loop]]
            at = begin_one + 2 if scoped else begin_one
            has_argument = at + 1 < end_one and src.texts[at + 1] == "("
            found[src.texts[at]] = src.span(at + 2, end_one - 1) if has_argument else ""
        i = stop + 1
    return found, rest


def string_value(src, token, text):
    try:
        return ast.literal_eval(f"({text})")
    except (SyntaxError, ValueError):
        raise src.error(token, f"host_name: expected a string, got {text or 'nothing'}") from None


def space_and_shape(words):
    """The address space that a declarator names, and whether it is a pointer or a reference."""
    depth, shape = 0, ""
    for i, w in enumerate(words):
        depth += (w in "<(") - (w in ">)")
        if w in ("*", "&") and (depth == 0 or words[i - 1] == "("):   # float (&a)[4] too
            shape = w
        elif depth == 0 and w == "[" and not shape:   # an array is a pointer to its first element
            shape = "*"
    return next((w for w in words if w in SPACES), ""), shape


def aliases(src):
    """The types whose names bring an address space along: name -> (space, shape)."""
    found = {}
    for i, t in enumerate(src.texts):
        if t not in ("using", "typedef") or src.kinds[i] != "word":
            continue
        end = next((k for k in range(i, len(src)) if src.texts[k] == ";"), i)
        named = i + 1 if t == "using" and src.texts[i + 2:i + 3] == ["="] else 0
        if t == "typedef":
            named = next((k for k in range(i + 2, end) if src.kinds[k] == "word" and src.texts[k + 1] in (";", ")", "[")
                          and src.texts[k] not in SPACES), 0)
        space, shape = space_and_shape(src.texts[i + 1:end])
        if named and space and shape:
            found[src.texts[named]] = space, shape
    return found


def parse_parameter(src, module, begin, end):
    attrs, rest = attributes(src, begin, end)
    words = [src.texts[i] for i in rest]
    space, shape = space_and_shape(words)
    if not space:
        if module.aliases is None:
            module.aliases = aliases(src)
        space, shape = next((module.aliases[w] for w in words if w in module.aliases), (space, shape))
    text = " ".join(words)
    for w in words:
        if w.startswith(UNSUPPORTED):
            raise src.error(begin, f"kernel parameter '{text}': {w} is not supported")
    return Parameter(begin, text, space, shape, attrs)


def number_buffers(src, kernel, evaluator):
    """Explicit buffer and threadgroup indices, then the lowest free ones in order."""
    for kind, spaces, limit in (("buffer", ("device", "constant"), 31), ("threadgroup", ("threadgroup",), 31)):
        mine = [p for p in kernel.parameters if p.space in spaces]
        used = set()
        for p in mine:
            if kind not in p.attributes:
                continue
            value = evaluator.text(p.attributes[kind].split())
            if value is None or not 0 <= value < limit:
                raise src.error(p.token, f"{kind}({p.attributes[kind]}): expected a number below {limit}")
            p.index = value
            if p.index in used and "function_constant" not in p.attributes:   # at most one of those is there
                raise src.error(p.token, f"{kind}({p.index}) is used twice in kernel '{kernel.name}'")
            used.add(p.index)
        for p in mine:
            if p.index < 0:
                p.index = next(n for n in range(limit + 1) if n not in used)
                used.add(p.index)


def parse_kernel(src, module, begin, marker_end, scope, head, attrs):
    """A kernel definition; `begin` is the `kernel` token, or the [[ of its attribute. Returns the next token."""
    i, name_at, is_template = marker_end, marker_end, bool(head)
    while i < len(src) and src.texts[i] not in ("(", ";", "{", "="):
        stop = src.attribute_end(i)
        if stop is not None:
            attrs.update(attributes(src, i, stop + 1)[0])
            i = stop
        elif src.texts[i:i + 2] == ["__attribute__", "("]:
            i = src.match[i + 1]
        else:
            name_at = i
        i += 1
    if i < len(src) and src.texts[i] == "(" and src.texts[name_at] == ">":   # template <> kernel void f<float>(...)
        depth = 0
        while name_at > marker_end:
            depth += (src.texts[name_at] == ">") - (src.texts[name_at] == "<")
            name_at -= 1
            if depth == 0:
                break
    if i >= len(src) or src.texts[i] != "(" or src.kinds[name_at] != "word":
        raise src.error(begin, "expected a function after 'kernel'")
    name, close = src.texts[name_at], src.match[i]
    marker = begin - (src.texts[begin - 1:begin] == ["void"])   # void kernel f(…)
    if (*src.texts[marker:begin], *src.texts[marker_end:name_at]).count("void") != 1:
        raise src.error(name_at, f"kernel '{name}' must return void")
    body = close + 1
    while body < len(src) and src.attribute_end(body) is not None:
        stop = src.attribute_end(body)
        attrs.update(attributes(src, body, stop + 1)[0])
        body = stop + 1
    if src.texts[body] == ";":
        return body
    if src.texts[body] != "{":
        raise src.error(body, f"expected the body of kernel '{name}'")
    parameters = [parse_parameter(src, module, a, b) for a, b in src.split(i + 1, close) if src.span(a, b) != "void"]
    if name_at != i - 1:   # a specialisation is called through the template
        return src.match[body]
    kernel = Kernel(name, i - 1, is_template, parameters, attrs, (body, src.match[body] + 1), scope,
                    head=head, marker=marker)
    if (*scope, name) in module.kernels:
        if not is_template:
            raise src.error(i - 1, f"kernel '{name}' is defined twice")
        kernel.overload_of, kernel.name = name, f"mpsx_overload_{len(module.kernels)}_{name}"
    number_buffers(src, kernel, module.evaluator)
    module.kernels[(*scope, kernel.name)] = kernel
    if not is_template:
        host = attrs.get("host_name")
        host = string_value(src, begin, host) if host is not None else name
        module.instances.append(Instance(host, name, kernel, scope, i - 1))
    return src.match[body]


def parse_instantiation(src, module, begin, scope):
    """`template [[host_name("x")]] kernel decltype(f<T>) f<T>;` or with the signature typed again."""
    end = begin
    while end < len(src) and src.texts[end] != ";":
        if src.texts[end] in "{}":
            raise src.error(begin, "explicit instantiation without ';'")
        end = src.match[end] + 1 if src.texts[end] in ("(", "[") else end + 1
    attrs, rest = attributes(src, begin + 1, end)
    is_kernel = "kernel" in attrs or "host_name" in attrs or any(src.texts[i] == "kernel" for i in rest)
    if not is_kernel:
        return end
    rest = [i for i in rest if src.texts[i] != "kernel"]
    if "host_name" not in attrs:
        raise src.error(begin, "kernel instantiation without [[host_name(\"...\")]]")
    host = string_value(src, begin, attrs["host_name"])
    rest = [i for i in rest if src.texts[i] not in ("inline", "static", "METAL_FUNC")]
    if rest and src.texts[rest[0]] == "decltype":
        first, last = src.match[rest[1]] + 1, end
    elif rest and src.texts[rest[0]] == "void" and src.texts[rest[-1]] == ")":
        first, last = rest[1], src.match[rest[-1]]
    elif len(rest) > 1 and src.kinds[rest[0]] == "word":   # a typedef of the function's type: `f_t f<float>`
        first, last = rest[1], end
        while src.texts[first] == "::":
            first += 2
    else:
        raise src.error(begin, f"host_name(\"{host}\"): expected `decltype(f<...>) f<...>`, "
                        "`void f<...>(...)` or `type f<...>`")
    name = next((src.texts[i] for i in range(first, last) if i + 1 >= last or src.texts[i + 1] == "<"), "")
    signature = src.split(last + 1, src.match[last]) if src.texts[last] == "(" else None
    module.instances.append(Instance(host, src.span(first, last), name, scope, first, signature))
    module.removed.append((begin, end + 1))
    return end


def parse(src):
    """All kernels and instances of a translation unit."""
    module, scopes, i = Module(evaluator=Evaluator(src)), {}, 0   # scopes: closing brace -> namespaces opened there
    stack, template, attrs = [], (), {}
    while i < len(src):
        t = src.texts[i]
        stop = src.attribute_end(i) if t == "[" else None
        if stop is not None:
            found = attributes(src, i, stop + 1)[0]
            attrs.update(found)
            if "kernel" in found:
                module.markers.append((i, stop + 1))
                i = parse_kernel(src, module, i, stop + 1, tuple(stack), template, attrs)
                template, attrs = (), {}
            else:
                i = stop
        elif src.kinds[i] == "string" or src.kinds[i] == "number":
            pass
        elif t == "template":
            if src.texts[i + 1] == "<":
                end = src.angle_end(i + 1)
                template, i = (i, end + 1), end
            else:
                i = parse_instantiation(src, module, i, tuple(stack))
        elif t == "kernel":
            module.markers.append((i, i + 1))
            i = parse_kernel(src, module, i, i + 1, tuple(stack), template, attrs)
            template, attrs = (), {}
        elif t == "namespace" and src.texts[i + 1] != "=" and src.texts[i - 1] != "using":
            brace = i + 1
            while src.texts[brace] not in ("{", ";", "="):
                brace += 1
            if src.texts[brace] == "{":
                names = [w for w in src.texts[i + 1:brace] if w not in ("::", "inline")] or [""]
                stack += names
                scopes[src.match[brace]] = len(names)
                i = brace
        elif t == "extern" and src.kinds[i + 1] == "string" and src.texts[i + 2] == "{":
            scopes[src.match[i + 2]], i = 0, i + 2
        elif t == "{":
            i, template, attrs = src.match[i], (), {}
        elif t == "}":
            del stack[len(stack) - scopes.get(i, 0):]
        elif t == ";":
            template, attrs = (), {}
        i += 1
    resolve(src, module)
    return module


def find_kernels(module, name, scope):
    """The kernel of that name, and its overloads: in the innermost namespace around, else in any."""
    def called(k):
        return name in (k.name, k.overload_of)
    for n in range(len(scope), -1, -1):
        found = [k for q, k in module.kernels.items() if q[:-1] == scope[:n] and called(k)]
        if found:
            return found
    return [k for k in module.kernels.values() if called(k)]


def takes(src, kernel, arguments):
    """Whether the template of a kernel may take these arguments, given as words."""
    head = src.split(kernel.head[0] + 2, kernel.head[1] - 1) if kernel.head else []
    pack = False
    for k, (a, b) in enumerate(head):
        words = src.texts[a:b]
        pack = pack or "..." in "".join(words)
        if k >= len(arguments):
            if "=" not in words and not pack:
                return False
            continue
        of_type = words[0] in ("typename", "class", "template")
        number = re.match(r"\d|'|true$|false$|-$", arguments[k][0])
        if bool(number) and of_type:
            return False
    return pack or len(arguments) <= len(head)


def overload(src, kernels, first, last, signature):
    """Which of several templates an instantiation of `name<arguments>`, tokens [first, last), means."""
    angle = next((i for i in range(first, last) if src.texts[i] == "<"), None)
    arguments = [src.texts[a:b] for a, b in src.split(angle + 1, src.angle_end(angle))] if angle else []
    fitting = [k for k in kernels if takes(src, k, arguments)
               and (signature is None or len(k.parameters) == len(signature))]
    return (fitting or kernels)[0]


def rename_overloads(src, module):
    """Gives every overload its own name, wherever it stands."""
    names = {k.overload_of for k in module.kernels.values() if k.overload_of}
    defined = {k.token: k for k in module.kernels.values()}
    for i, t in enumerate(src.texts):
        if t not in names or src.kinds[i] != "word":
            continue
        kernel = defined.get(i)
        if kernel is None and src.texts[i + 1] == "<":
            end = src.angle_end(i + 1) + 1
            kernel = overload(src, find_kernels(module, t, ()), i, end, None)
        if kernel is not None and kernel.overload_of:
            src.replace(i, i + 1, kernel.name)


def deduced(src, kernel, inst):
    """The template arguments that an instantiation leaves to its parameters' types, as text."""
    pairs = [(p.text.split(), [src.texts[i] for i in attributes(src, *span)[1]])
             for p, span in zip(kernel.parameters, inst.signature, strict=False)]
    head = [src.texts[a:b] for a, b in src.split(kernel.head[0] + 2, kernel.head[1] - 1)]
    found = template_arguments(head, pairs)
    if found is None:
        raise src.error(inst.token, f"host_name(\"{inst.host_name}\"): the parameters of '{kernel.name}' do not tell "
                        "its template arguments")
    return f" < {' , '.join(found)} >"


def resolve(src, module):
    """Ties instances to their kernels and refuses host names given twice."""
    seen = {}
    for inst in module.instances:
        if isinstance(inst.kernel, str):
            found = find_kernels(module, inst.kernel, inst.scope)
            if not found:
                raise src.error(inst.token, f"host_name(\"{inst.host_name}\"): no kernel named '{inst.kernel}'")
            kernel = found[0]
            angle = next((i for i in range(inst.token, len(src)) if src.texts[i] in ("<", "(", ";")), inst.token)
            if len(found) > 1:
                end = src.angle_end(angle) + 1 if src.texts[angle] == "<" else angle
                kernel = overload(src, found, inst.token, end, inst.signature)
                said = kernel.overload_of or kernel.name
                inst.expression = re.sub(rf"\b{said}\b", kernel.name, inst.expression, count=1)
            if kernel.head and inst.signature is not None and src.texts[angle] != "<":
                inst.expression += deduced(src, kernel, inst)
            inst.kernel = kernel
        if inst.host_name in seen:
            first = src.location(seen[inst.host_name])
            raise src.error(inst.token, f"host_name(\"{inst.host_name}\") is taken already, at {first}")
        seen[inst.host_name] = inst.token
