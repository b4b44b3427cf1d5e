"""Collect the kernels of a translation unit and their instantiations, and number the buffers."""

import ast
import re
from dataclasses import dataclass, field

from .declarations import ADDRESS_SPACES, ALIAS, CLASS, FUNCTION, INSTANTIATION, NAMESPACE, Declaration, TranslationUnit
from .deduction import template_arguments
from .evaluator import Evaluator
from .parser import attributes, parse
from .tensor_types import HANDLE, TensorTypes, type_words

UNSUPPORTED = ("texture", "sampler", "imageblock", "payload", "visible_function_table", "stage_in")
MAX_INDEX = 31  # indices of buffers and of threadgroup arguments are below this


@dataclass
class Parameter:
    token: int  # the first token, used in messages
    text: str
    space: str          # device, constant, threadgroup or ""
    shape: str          # "*", "&", "tensor" or "" (by value)
    attributes: dict    # name -> argument text
    index: int = -1     # buffer or threadgroup index


@dataclass
class Kernel:
    name: str  # name in the translated code, unique for each overload
    declaration: Declaration
    marker: int  # the token `kernel`, or the [[ of the attribute
    parameters: list
    attributes: dict
    threadgroup_variables: tuple = ()   # set by the threadgroup memory pass
    overload_of: str = ""  # the name in the source, set for all overloads except the first
    max_threads: str = ""  # max_total_threads_per_threadgroup: a number, or the name of a template with the value

    @property
    def token(self):
        return self.declaration.name

    @property
    def body(self):
        return self.declaration.body_range

    @property
    def scope(self):
        return self.declaration.scope

    @property
    def head(self):
        """The token range of `template <…>`, or () for kernels that are not templates."""
        return self.declaration.heads[-1] if self.declaration.heads else ()


@dataclass
class Instance:
    """One compiled kernel: its host name, and the C++ expression that refers to the function."""

    host_name: str
    expression: str
    kernel: Kernel
    scope: tuple
    token: int
    signature: list | None = None   # token ranges of the parameters, if the instantiation repeats them


@dataclass
class Module:
    unit: TranslationUnit
    evaluator: Evaluator
    kernels: dict = field(default_factory=dict)   # (*scope, name) -> Kernel
    instances: list = field(default_factory=list)
    removed: list = field(default_factory=list)   # token ranges of instantiations
    markers: list = field(default_factory=list)   # token ranges of `kernel` and [[kernel]]
    constants: list = field(default_factory=list)   # FunctionConstants, set by the pass
    setters: list = field(default_factory=list)  # names of the functions that set constants, set by the pass
    definitions: list = field(default_factory=list)  # definitions of the constants, set by the pass


def space_and_shape(words):
    """Return the address space in a declarator, and its shape: "*", "&", or ""."""
    depth, shape = 0, ""
    for i, w in enumerate(words):
        depth += (w in "<(") - (w in ">)")
        if w in ("*", "&") and (depth == 0 or words[i - 1] == "("):   # also float (&a)[4]
            shape = w
        elif depth == 0 and w == "[" and not shape:   # an array parameter is a pointer
            shape = "*"
    return next((w for w in words if w in ADDRESS_SPACES[:3]), ""), shape


class Collector:
    """Collects the kernels and instantiations in a Source."""

    def __init__(self, src, tree):
        self.src, unit = src, tree or parse(src)
        self.module = Module(unit, Evaluator(unit))
        self.tensor_types = TensorTypes(unit, self.module.evaluator)
        self.pointer_aliases = None

    def run(self):
        for d in self.module.unit.all:
            if d.in_class or d.kind in (NAMESPACE, CLASS):
                continue
            if d.kind == INSTANTIATION:
                self.instantiation(d)
            elif marker := self.marker(d):
                self.module.markers.append(marker)
                self.kernel(d, *marker)
        self.resolve()
        return self.module

    def marker(self, d):
        """Return the range of `kernel` or [[kernel]] in a declaration, or None."""
        src = self.src
        if d.kind == FUNCTION and d.entry != "kernel":
            return None
        stop = d.name if d.kind == FUNCTION else d.end
        found = [a.span for a in d.attributes if a.name == "kernel"]
        found += [(i, i + 1) for i in range(d.start, stop) if src.texts[i] == "kernel"][:1]
        marker = min(found, default=None)
        if marker and (d.kind != FUNCTION or marker[0] > d.name):
            raise src.error(marker[0], "expected a function after 'kernel'")
        return marker

    def aliases(self):
        """Return a dict from the aliases of pointer types to (space, shape)."""
        if self.pointer_aliases is None:
            texts, unit = self.src.texts, self.module.unit
            found = {texts[d.name]: space_and_shape(texts[slice(*d.value)]) for d in unit.of_kind(ALIAS) if d.name >= 0}
            self.pointer_aliases = {name: alias for name, alias in found.items() if all(alias)}
        return self.pointer_aliases

    def parameter(self, begin, end):
        src = self.src
        found, rest = attributes(src, begin, end)
        words = [src.texts[i] for i in rest]
        space, shape = space_and_shape(words)
        if not space:
            space, shape = next((self.aliases()[w] for w in words if w in self.aliases()), (space, shape))
        text = " ".join(words)
        tensor = None if shape else self.tensor_types.arguments(type_words(words))
        if tensor:
            space, shape = self.tensor_space(begin, text, tensor), "tensor"
        for w in words:
            if w.startswith(UNSUPPORTED):
                raise src.error(begin, f"kernel parameter '{text}': {w} is not supported")
        return Parameter(begin, text, space, shape, {a.name: a.argument or "" for a in found})

    def tensor_space(self, token, text, arguments):
        """Return the address space of the elements of a tensor parameter."""
        space = space_and_shape(arguments[0])[0]
        if len(arguments) > 2 and arguments[2][-1] != HANDLE:
            raise self.src.error(token, f"kernel parameter '{text}': expected a tensor_handle, which the host binds, "
                                 f"got {arguments[2][-1]}")
        if space not in ("device", "constant"):
            raise self.src.error(token, f"kernel parameter '{text}': expected elements in device or constant memory, "
                                 f"got {space or 'no address space'}")
        return space

    def number_buffers(self, kernel):
        """Number the parameters by their attributes. A parameter without an index gets the lowest free one."""
        for kind, spaces in (("buffer", ("device", "constant")), ("threadgroup", ("threadgroup",))):
            mine = [p for p in kernel.parameters if p.space in spaces]
            used = set()
            for p in mine:
                if kind not in p.attributes:
                    continue
                value = self.module.evaluator.value(p.attributes[kind].split())
                if value is None or not 0 <= value < MAX_INDEX:
                    raise self.src.error(p.token, f"{kind}({p.attributes[kind]}): expected a number below {MAX_INDEX}")
                p.index = value
                # Parameters with function constants may share an index, because at most one of them is present.
                if p.index in used and "function_constant" not in p.attributes:
                    raise self.src.error(p.token, f"{kind}({p.index}) is used twice in kernel '{kernel.name}'")
                used.add(p.index)
            for p in mine:
                if p.index < 0:
                    p.index = next(n for n in range(len(mine) + len(used)) if n not in used)
                    used.add(p.index)
            if max(used, default=0) >= MAX_INDEX:
                what = "buffers" if kind == "buffer" else "threadgroup arguments"
                raise self.src.error(kernel.token, f"kernel '{kernel.name}': expected at most {MAX_INDEX} "
                                     f"{what}, got {len(mine)}")

    def kernel(self, d, begin, end):
        """Add a kernel function that is marked as a kernel by the tokens [begin, end)."""
        src, module, name = self.src, self.module, self.src.texts[d.name]
        marker = begin - (src.texts[begin - 1:begin] == ["void"])   # void kernel f(…)
        if (*src.texts[marker:begin], *src.texts[end:d.name]).count("void") != 1:
            raise src.error(d.name, f"kernel '{name}' must return void")
        parameters = [self.parameter(a, b) for a, b in d.parameters]
        if d.body < 0 or d.name != d.open - 1:   # specializations are called through their template
            return
        found = {a.name: a.argument or "" for a in d.attributes}
        kernel = Kernel(name, d, marker, parameters, found)
        if (*d.scope, name) in module.kernels:
            if not d.heads:
                raise src.error(d.name, f"kernel '{name}' is defined twice")
            kernel.overload_of, kernel.name = name, f"mpsx_overload_{len(module.kernels)}_{name}"
        self.number_buffers(kernel)
        module.kernels[(*d.scope, kernel.name)] = kernel
        if not d.heads:
            host = self.host_name(d, begin) if "host_name" in found else name
            module.instances.append(Instance(host, name, kernel, d.scope, d.name))

    def host_name(self, d, token):
        text = next(a.argument for a in d.attributes if a.name == "host_name")
        try:
            return ast.literal_eval(f"({text or ''})")
        except (SyntaxError, ValueError):
            raise self.src.error(token, f"host_name: expected a string, got {text or 'nothing'}") from None

    def instantiation(self, d):
        """Add an instantiation. It has the form `template [[host_name("x")]] kernel decltype(f<T>) f<T>;`, or repeats
        the signature."""
        src, texts, end = self.src, self.src.texts, d.end - 1
        found, rest = attributes(src, d.start + 1, end)
        names = {a.name for a in found}
        if not names & {"kernel", "host_name"} and all(texts[i] != "kernel" for i in rest):
            return
        if any(texts[i] in "{}" for i in rest):
            raise src.error(d.start, "explicit instantiation without ';'")
        if "host_name" not in names:
            raise src.error(d.start, "kernel instantiation without [[host_name(\"...\")]]")
        host = self.host_name(d, d.start)
        rest = [i for i in rest if texts[i] not in ("kernel", "inline", "static", "METAL_FUNC")]
        if rest and texts[rest[0]] == "decltype":
            first, last = src.match[rest[1]] + 1, end
        elif rest and texts[rest[0]] == "void" and texts[rest[-1]] == ")":
            first, last = rest[1], src.match[rest[-1]]
        elif len(rest) > 1 and src.kinds[rest[0]] == "word":   # `f_t f<float>` with a typedef of the function type
            first, last = rest[1], end
            while texts[first] == "::":
                first += 2
        else:
            raise src.error(d.start, f"host_name(\"{host}\"): expected `decltype(f<...>) f<...>`, "
                            "`void f<...>(...)` or `type f<...>`")
        name = next((texts[i] for i in range(first, last) if i + 1 >= last or texts[i + 1] == "<"), "")
        signature = src.split(last + 1, src.match[last]) if texts[last] == "(" else None
        self.module.instances.append(Instance(host, src.span(first, last), name, d.scope, first, signature))
        self.module.removed.append((d.start, d.end))

    def resolve(self):
        """Find each instance's kernel, and reject duplicate host names."""
        src, seen = self.src, {}
        for instance in self.module.instances:
            if isinstance(instance.kernel, str):
                self.resolve_instance(instance)
            host = f"host_name(\"{instance.host_name}\")"
            if instance.host_name in seen:
                first = src.location(seen[instance.host_name])
                raise src.error(instance.token, f"{host} is already used, at {first}")
            seen[instance.host_name] = instance.token

    def resolve_instance(self, instance):
        src = self.src
        found = find_kernels(self.module, instance.kernel, instance.scope)
        host = f"host_name(\"{instance.host_name}\")"
        if not found:
            raise src.error(instance.token, f"{host}: no kernel named '{instance.kernel}'")
        kernel = found[0]
        angle = next((i for i in range(instance.token, len(src)) if src.texts[i] in ("<", "(", ";")), instance.token)
        if len(found) > 1:
            end = src.angle_end(angle) + 1 if src.texts[angle] == "<" else angle
            kernel = overload(src, found, instance.token, end, instance.signature)
            name = kernel.overload_of or kernel.name
            instance.expression = re.sub(rf"\b{name}\b", kernel.name, instance.expression, count=1)
        if kernel.head and instance.signature is not None and src.texts[angle] != "<":
            arguments = deduced_arguments(src, kernel, instance)
            if arguments is None:
                raise src.error(instance.token, f"{host}: cannot deduce the template arguments of '{kernel.name}' "
                                "from its parameters")
            instance.expression += f" < {' , '.join(arguments)} >"
        instance.kernel = kernel


def collect_kernels(src, tree=None):
    """Collect the kernels of a Source in a Module. `tree` is parse(src), if the caller has it."""
    return Collector(src, tree).run()


def template_parameters(src, kernel):
    """Return the tokens of each template parameter of a kernel."""
    if not kernel.head:
        return []
    return [src.texts[a:b] for a, b in src.split(kernel.head[0] + 2, kernel.head[1] - 1)]


def find_kernels(module, name, scope):
    """Return the kernels with this name, including overloads. Prefer the innermost enclosing namespace that has any."""
    named = {key: k for key, k in module.kernels.items() if name in (k.name, k.overload_of)}
    for n in range(len(scope), -1, -1):
        found = [k for key, k in named.items() if key[:-1] == scope[:n]]
        if found:
            return found
    return list(named.values())


def accepts(src, kernel, arguments):
    """Return whether a kernel's template may accept these arguments, which are lists of tokens."""
    head = template_parameters(src, kernel)
    pack = False
    for k, words in enumerate(head):
        pack = pack or "..." in "".join(words)
        if k >= len(arguments):
            if "=" not in words and not pack:
                return False
            continue
        is_type = words[0] in ("typename", "class", "template")
        if is_type and re.match(r"\d|'|true$|false$|-$", arguments[k][0]):
            return False
    return pack or len(arguments) <= len(head)


def overload(src, kernels, first, last, signature):
    """Choose the template that the instantiation `name<arguments>`, tokens [first, last), refers to."""
    angle = next((i for i in range(first, last) if src.texts[i] == "<"), None)
    arguments = [src.texts[a:b] for a, b in src.split(angle + 1, src.angle_end(angle))] if angle else []
    fitting = [k for k in kernels if accepts(src, k, arguments)
               and (signature is None or len(k.parameters) == len(signature))]
    return (fitting or kernels)[0]


def rename_overloads(src, module):
    """Give every overload its own name, both in its definition and where it is used."""
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


def deduced_arguments(src, kernel, instance):
    """Return the template arguments deduced from an instantiation's parameter types, or None."""
    pairs = [(p.text.split(), [src.texts[i] for i in attributes(src, *span)[1]])
             for p, span in zip(kernel.parameters, instance.signature, strict=False)]
    return template_arguments(template_parameters(src, kernel), pairs)
