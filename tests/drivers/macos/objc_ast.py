"""Read declarations from Objective-C headers using clang's AST, and encode them as in declarations.txt."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

SCALARS = {
    "void": "v", "bool": "B", "_Bool": "B", "BOOL": "B", "char": "c", "signed char": "c", "unsigned char": "C",
    "short": "s", "unsigned short": "S", "int": "i", "unsigned int": "I", "long": "q", "unsigned long": "Q",
    "long long": "q", "unsigned long long": "Q", "float": "f", "double": "d", "SEL": ":", "Class": "#", "id": "@",
    "instancetype": "@",
}  # fmt: skip
QUALIFIERS = re.compile(r"\b(_Nullable|_Nonnull|_Null_unspecified|const|__strong|__autoreleasing|struct|enum|oneway)\b")


@dataclass
class Declarations:
    """Methods by (class or protocol, + or -, selector), enumerations, and C functions."""

    methods: dict[tuple[str, str, str], tuple[str, ...]] = field(default_factory=dict)
    enum_types: dict[str, str] = field(default_factory=dict)
    constants: dict[str, int] = field(default_factory=dict)
    functions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    parents: dict[str, list[str]] = field(default_factory=dict)
    protocols: set[str] = field(default_factory=set)


def compiler() -> list[str]:
    """Return the command line of ziglang's clang, or of the system's clang if ziglang is not installed."""
    found = importlib.util.find_spec("ziglang")
    if found and found.submodule_search_locations:
        zig = Path(found.submodule_search_locations[0]) / "zig"
        headers = [zig.parent / "lib" / "include", zig.parent / "lib" / "libc" / "include" / "any-darwin-any"]
        return [str(zig), "clang", "-nostdinc", *(f"-isystem{path}" for path in headers)]
    clang = shutil.which("clang++")
    return [clang] if clang else []


def syntax_tree(source: str, include: Path) -> dict:
    """Return clang's AST of Objective-C++ source for macOS on arm64."""
    command = [*compiler(), "-target", "arm64-apple-macosx14.0", "-x", "objective-c++", "-std=c++20", "-fblocks",
               "-fno-objc-arc", "-fsyntax-only", f"-I{include}", "-Xclang", "-ast-dump=json", "-"]  # fmt: skip
    run = subprocess.run(command, input=source, capture_output=True, text=True, check=False, timeout=120)
    if run.returncode:
        raise RuntimeError(run.stderr)
    return json.loads(run.stdout)


class Reader:
    """Traverses an AST and collects the declarations."""

    def __init__(self, tree: dict) -> None:
        self.found = Declarations()
        self.structs: dict[str, list[str]] = {}
        self.typedefs: dict[str, str] = {}
        for node in tree["inner"]:
            self._visit(node)

    def _visit(self, node: dict) -> None:
        kind, name = node.get("kind"), node.get("name", "")
        if kind == "LinkageSpecDecl":
            for child in node.get("inner", []):
                self._visit(child)
        elif kind == "TypedefDecl":
            self.typedefs[name] = node["type"].get("desugaredQualType", node["type"]["qualType"])
        elif kind == "EnumDecl" and "fixedUnderlyingType" in node:
            base = node["fixedUnderlyingType"]
            self.found.enum_types[name] = self.encode(base.get("desugaredQualType", base["qualType"]))
            self._constants(node)
        elif kind in ("RecordDecl", "CXXRecordDecl") and "inner" in node:
            fields = [child["type"] for child in node["inner"] if child.get("kind") == "FieldDecl"]
            names = [name] if name else []
            self.structs |= {n: [t.get("desugaredQualType", t["qualType"]) for t in fields] for n in names}
            self._anonymous = [t.get("desugaredQualType", t["qualType"]) for t in fields] if not name else None
        elif kind == "FunctionDecl":
            self._function(node, name)
        elif kind in ("ObjCProtocolDecl", "ObjCInterfaceDecl", "ObjCCategoryDecl"):
            self._methods(node, kind)
        if kind == "TypedefDecl" and name not in self.structs and getattr(self, "_anonymous", None):
            self.structs[name] = self._anonymous
            self._anonymous = None

    def _constants(self, node: dict) -> None:
        last = -1
        for child in node.get("inner", []):
            if child.get("kind") == "EnumConstantDecl":
                values = [n["value"] for n in child.get("inner", []) if "value" in n]
                last = int(values[0]) if values else last + 1
                self.found.constants[child["name"]] = last

    def _function(self, node: dict, name: str) -> None:
        if name.startswith(("MTL", "NS")) and node.get("storageClass") != "static":
            result = re.match(r"(.*?)\s*\(", node["type"]["qualType"])
            arguments = [self._type(n) for n in node.get("inner", []) if n.get("kind") == "ParmVarDecl"]
            self.found.functions[name] = (self.encode(result[1]), *arguments)

    def _methods(self, node: dict, kind: str) -> None:
        owner = node["interface"]["name"] if kind == "ObjCCategoryDecl" else node["name"]
        if kind == "ObjCProtocolDecl":
            self.found.protocols.add(owner)
        parents = [p["name"] for p in node.get("protocols", [])]
        parents += [node["super"]["name"]] if "name" in node.get("super", {}) else []
        self.found.parents.setdefault(owner, []).extend(parents)
        for child in node.get("inner", []):
            if child.get("kind") == "ObjCMethodDecl":
                arguments = [self._type(n) for n in child.get("inner", []) if n.get("kind") == "ParmVarDecl"]
                returned = child["returnType"]
                result = self.encode(returned.get("desugaredQualType", returned["qualType"]))
                self.found.methods[(owner, "-" if child["instance"] else "+", child["name"])] = (result, *arguments)

    def _type(self, node: dict) -> str:
        return self.encode(node["type"].get("desugaredQualType", node["type"]["qualType"]))

    def encode(self, text: str) -> str:
        """Return the type encoding of an unqualified C type."""
        text = QUALIFIERS.sub("", text).strip()
        block = re.fullmatch(r"(.+?)\s*\(\^\s*\)\s*\((.*)\)", text)
        if block:
            arguments = [self.encode(a) for a in block[2].split(",") if a.strip() not in ("", "void")]
            return f"@?<{self.encode(block[1])}{''.join(arguments)}>"
        previous = ""
        while text != previous:  # drop generic arguments, as in NSArray<id<MTLDevice>> *
            previous, text = text, re.sub(r"\s*<[^<>]*>", "", text)
        stars = text.count("*")
        name = " ".join(text.replace("*", " ").replace("&", " ").split())
        if name == "char" and stars == 1:
            return "*"
        if name in self.found.parents and stars:
            return "^" * (stars - 1) + "@"
        return "^" * stars + self._named(name)

    def _named(self, name: str) -> str:
        if name in SCALARS:
            return SCALARS[name]
        if name in self.found.enum_types:
            return self.found.enum_types[name]
        if name in self.structs:
            return f"{{{name}={''.join(self.encode(t) for t in self.structs[name])}}}"
        if name in self.typedefs and self.typedefs[name] != name:
            return self.encode(self.typedefs[name])
        if name in self.found.parents:
            return "@"
        return "@" if re.fullmatch(r"\w*(ObjectType|KeyType)", name) else "?" + name


def declarations(source: str, include: Path) -> Declarations:
    """Return the declarations in `source` and in the headers that it includes."""
    return Reader(syntax_tree(source, include)).found
