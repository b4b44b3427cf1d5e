"""Read declarations from Apple's metal-cpp headers: selectors with type encodings, and enumerations.

Each inline function wraps a method as `sendMessage<Result>(this, _MTL_PRIVATE_SEL(selector), …)`. It has the same
result and argument types as the Objective-C method.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

SCALARS = {
    "void": "v", "bool": "B", "char": "c", "int": "i", "float": "f", "double": "d", "long long": "q",
    "unsigned int": "I", "unsigned long long": "Q", "unsigned short": "S", "unsigned char": "C",
    "uint8_t": "C", "uint32_t": "I", "int32_t": "i", "uint64_t": "Q", "int64_t": "q", "uintptr_t": "Q", "size_t": "Q",
    "unichar": "S", "UInteger": "Q", "Integer": "q", "TimeInterval": "d", "CFTimeInterval": "d", "Timestamp": "Q",
    "GPUAddress": "Q", "kern_return_t": "i", "task_id_token_t": "I", "dispatch_queue_t": "@", "dispatch_data_t": "@",
    "IOSurfaceRef": "^v", "SEL": ":", "ErrorDomain": "@", "ErrorUserInfoKey": "@", "CommonCounter": "@",
    "CommonCounterSet": "@", "AutoreleasedComputePipelineReflection": "@", "DeviceNotificationName": "@",
    "NotificationName": "@",
    "Range": "{_NSRange=QQ}", "Size": "{MTLSize=QQQ}", "Origin": "{MTLOrigin=QQQ}", "ResourceID": "{MTLResourceID=Q}",
    "Region": "{MTLRegion={MTLOrigin=QQQ}{MTLSize=QQQ}}", "SizeAndAlign": "{MTLSizeAndAlign=QQ}",
    "OperatingSystemVersion": "{NSOperatingSystemVersion=qqq}",
}  # fmt: skip
FUNCTION = re.compile(
    r"_(?:MTL|NS)_INLINE\s+(?P<result>[\w:&*<> ]+?)\s*\b(?:MTL4?|NS)::(?P<owner>\w+)::\w+\((?P<arguments>(?:[^{}])*?)\)"
    r"\s*(?:const\s*)?\{(?P<body>.*?)\n\}",
    re.DOTALL,
)
SEND = re.compile(
    r"sendMessage(?:Safe)?<(?P<result>[^;]*?)>\(\s*(?P<to>this|_(?:MTL|NS)_PRIVATE_CLS\((?P<cls>\w+)\)),\s*"
    r"_(?:MTL|NS)_PRIVATE_SEL\((?P<accessor>\w+)\)"
)
SELECTOR = re.compile(r'_(?:MTL|NS)_PRIVATE_DEF_SEL\(\s*(\w+),\s*"([^"]+)"\s*\)')
CLASS = re.compile(r"class (\w+) : public (?:NS::)?(?:Referencing|Copying|SecureCoding)<\s*\w+\s*(?:,\s*([\w:]+)\s*)?>")
ENUM = re.compile(r"_(?P<prefix>MTL|NS)_(?:ENUM|OPTIONS)\((?P<type>[\w:]+), (?P<name>\w+)\)\s*\{(?P<body>[^}]*)\}")
C_FUNCTION = re.compile(r'extern "C" ([\w:* ]+?)\s*\b(MTL\w+)\(([^()]*)\);')
BLOCK = re.compile(r"using (\w+) = ([\w:&* ]+?)\s*\(\^\)\(([^;]*)\);")


class UnknownTypeError(ValueError):
    """Raised if a C++ type has no known encoding."""


@dataclass
class Enumeration:
    """An enumeration: the type encoding of its underlying type, and its values by name."""

    encoding: str
    values: dict[str, int] = field(default_factory=dict)


def split_parameters(text: str) -> list[str]:
    """Split a parameter list at commas outside parentheses and angle brackets."""
    parts, depth, current = [], 0, ""
    for c in text:
        depth += (c in "(<") - (c in ")>")
        if c == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += c
    return [part.strip() for part in [*parts, current] if part.strip()]


class MetalCpp:
    """The declarations in the headers of root/Foundation and root/Metal."""

    def __init__(self, root: Path) -> None:
        files = [*sorted((root / "Foundation").glob("*.hpp")), *sorted((root / "Metal").glob("*.hpp"))]
        texts = {f: f.read_text() for f in files}
        everything = "\n".join(texts.values())
        self.selectors = dict(SELECTOR.findall(everything))
        self.classes = set(re.findall(r"_(?:MTL|NS)_PRIVATE_DEF_CLS\((\w+)\)", everything))
        self.protocols = set(re.findall(r"_(?:MTL|NS)_PRIVATE_DEF_PRO\((\w+)\)", everything))
        self.enums: dict[str, Enumeration] = {}
        self.parents: dict[str, str] = {}
        self._blocks = {m[1]: (m[2], m[3]) for m in BLOCK.finditer(everything)}
        for path, text in texts.items():
            prefix = self.prefix(path)
            for m in CLASS.finditer(text):
                if m[2] and m[2].split("::")[-1] != "objc_object":
                    space, _, parent = m[2].rpartition("::")
                    self.parents[prefix + m[1]] = (space or prefix) + parent
            self._read_enums(text, prefix)
        self.functions = {}  # name -> encodings
        for result, name, arguments in C_FUNCTION.findall(everything):
            plain = [self.encode(a, "MTL") for a in split_parameters(arguments)]
            self.functions[name] = (self.encode(result, "MTL"), *plain)
        self.methods = {}  # (class, "+" or "-", selector) -> encodings of the result and the arguments
        for path, text in texts.items():
            self._read_methods(text, self.prefix(path))

    @staticmethod
    def prefix(path: Path) -> str:
        """Return the namespace of a header's declarations. Metal 4 has its own namespace, because some of its classes
        have the same names as classes in MTL."""
        return "NS" if path.parent.name == "Foundation" else "MTL4" if path.name.startswith("MTL4") else "MTL"

    def _read_enums(self, text: str, prefix: str) -> None:
        for m in ENUM.finditer(text):
            # Different enumerations may use the same names, so each enumeration has its own scope. Values may refer to
            # earlier values.
            values: dict[str, int] = {}
            known = {"UIntegerMax": 2**64 - 1, "NS": type("NS", (), {"UIntegerMax": 2**64 - 1})}
            for row in m["body"].split(","):
                name, _, value = re.sub(r"//.*", "", row).strip().partition("=")
                if not name.strip():
                    continue
                code = re.sub(r"\b(0x[0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", value.strip()).replace("::", ".") or str(
                    max(values.values(), default=-1) + 1
                )
                values[name.strip()] = int(eval(code, {"__builtins__": {}}, {**known, **values}))
            self.enums[prefix + m["name"]] = Enumeration(
                SCALARS[m["type"].split("::")[-1]], {prefix + name: value for name, value in values.items()}
            )

    def _read_methods(self, text: str, prefix: str) -> None:
        for m in FUNCTION.finditer(text):
            send = SEND.search(m["body"])
            if not send or send["accessor"] not in self.selectors:
                continue
            selector = self.selectors[send["accessor"]]
            try:
                arguments = [self.encode(self._without_name(a), prefix) for a in split_parameters(m["arguments"])]
                result = self.encode(m["result"], prefix)
            except UnknownTypeError:
                continue
            if len(arguments) == selector.count(":"):
                kind = "-" if send["to"] == "this" else "+"
                self.methods[(prefix + m["owner"], kind, selector)] = (result, *arguments)

    @staticmethod
    def _without_name(argument: str) -> str:
        if "(^" in argument:
            return re.sub(r"\(\^\w*\)", "(^)", argument)
        return re.sub(r"\b\w+(\[\])?$", lambda m: "*" if m[1] else "", argument).strip() or argument

    def encode(self, text: str, prefix: str) -> str:
        """Return the type encoding of an unqualified C++ type. Blocks are encoded as @?<result arguments>."""
        block = re.fullmatch(r"(.+?)\s*\(\^\)\((.*)\)", text)
        if block:
            arguments = [self.encode(self._block_argument(a), prefix) for a in split_parameters(block[2])]
            return f"@?<{self.encode(block[1], prefix)}{''.join(arguments)}>"
        name = re.sub(r"\b(const|class|struct)\b|\b(std|MTL4?|NS)::", " ", text.replace("&", " "))
        name, stars = " ".join(name.replace("*", " ").split()), text.count("*")
        if name in self._blocks and not stars:
            result, arguments = self._blocks[name]
            return self.encode(f"{result} (^)({arguments})", prefix)
        for candidate in (prefix + name, "MTL" + name, "NS" + name):
            if candidate in self.enums:
                return "^" * stars + self.enums[candidate].encoding
        if name in SCALARS:
            return "*" if (name, stars) == ("char", 1) else "^" * stars + SCALARS[name]
        if stars and name.lstrip("_")[:1].isupper():
            return "^" * (stars - 1) + "@"
        raise UnknownTypeError(text)

    @staticmethod
    def _block_argument(text: str) -> str:
        return re.sub(r"(?<=[*\s])\w+$", "", text).strip() if re.search(r"[*\s]\w+$", text) else text
