"""The package has no import cycles. Imports inside functions also count."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "mpsx"


def imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield all import statements, including nested ones, but not those under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            yield from imports(node)


def import_graph(package: Path) -> dict[str, set[str]]:
    """Return a dict from each module of a package to the modules of the same package that it imports."""
    paths = {}
    for path in (*package.rglob("*.py"), *package.rglob("*.pyx")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    graph = {}
    for module, path in paths.items():
        parents = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
        found = set()
        text = path.read_text()
        if path.suffix == ".pyx":  # ast cannot parse Cython files
            text = "\n".join(re.findall(r"^\s*((?:from \S+ )?import .+)", text, re.M))
        for node in imports(ast.parse(text)):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
                continue
            base = ".".join([*parents[: len(parents) - node.level + 1], node.module or ""]).strip(".")
            base = base if node.level else node.module
            # `from package import name` imports the submodule `name` if it exists, otherwise the package itself.
            found.update(name if (name := f"{base}.{alias.name}") in paths else base for alias in node.names)
        graph[module] = found & paths.keys() - {module}
    return graph


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Return the modules in a cycle, with the first module repeated at the end. Return an empty list if there is
    none."""
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> list[str]:
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return []
        for other in sorted(graph[module]):
            if found := visit(other, [*path, module]):
                return found
        done.add(module)
        return []

    return next((found for module in sorted(graph) if (found := visit(module, []))), [])


def test_package_has_no_import_cycle() -> None:
    graph = import_graph(PACKAGE)
    assert "mpsx.shader.toolchain" in graph["mpsx.shader.build"], "the graph lacks an edge"
    assert cycle(graph) == []


def test_cycles_are_found(tmp_path: Path) -> None:
    package = tmp_path / "sample"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("from . import a\n")
    (package / "a.py").write_text("if TYPE_CHECKING:\n    from .inner import b\nimport os\n")
    (package / "inner" / "__init__.py").write_text("")
    (package / "inner" / "b.py").write_text("def f():\n    from ..inner import c\n")
    (package / "inner" / "c.py").write_text("from sample.a import os\n")
    assert cycle(import_graph(package)) == []
    (package / "a.py").write_text("def f():\n    from .inner.b import f\n")
    assert cycle(import_graph(package)) == ["sample.a", "sample.inner.b", "sample.inner.c", "sample.a"]
