"""The documentation site builds without warnings, and all internal links and anchors exist."""

from __future__ import annotations

import posixpath
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import torch

import mpsx

pytest.importorskip("material", reason="needs mkdocs-material: pip install '.[docs]'")
pytest.importorskip("mkdocstrings", reason="needs mkdocstrings: pip install '.[docs]'")

ROOT = Path(__file__).resolve().parents[2]


class Page(HTMLParser):
    """Collects the links and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        self.anchors |= {value for value in (found.get("id"), found.get("name")) if value}
        self.links += [value for name in ("href", "src") if (value := found.get(name))]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site, and return the folder that contains it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "-f", "tools/docs/mkdocs.yml", "-d", str(folder)]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_links(site: Path) -> None:
    pages = {path.relative_to(site).as_posix(): Page(path.read_text()) for path in site.rglob("*.html")}
    broken = []
    for name, page in pages.items():
        if name in ("404.html", "matrix.html"):  # 404.html is served from any folder, and matrix.html is a program
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            path = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(parts.path)))
            path = path if parts.path else name
            if not (site / path).exists():
                broken.append(f"{name}: {link}")
            elif parts.fragment and path in pages and unquote(parts.fragment) not in pages[path].anchors:
                broken.append(f"{name}: {link}: no such anchor")
    assert not broken, "\n".join(broken)


def test_reference(site: Path) -> None:
    device = (site / "reference" / "torch_mpsx.html").read_text()
    public = [name for name, value in vars(torch.mpsx).items() if not name.startswith("_") and callable(value)
              and value.__module__.startswith("mpsx.")]  # fmt: skip
    assert {"memory_allocated", "manual_seed", "Stream", "synchronize"} < set(public)
    times = {name: len(re.findall(rf'<h\d id="mpsx\.device\.\w+\.{name}"', device)) for name in public}
    assert {name for name, count in times.items() if count != 1} == {"register"}  # internal
    assert "Return whether the device is currently named mps" in device
    operators = (site / "reference" / "ops.html").read_text()
    assert all(f'id="mpsx.ops.{name}"' in operators for name in mpsx.ops.__all__)
    schemas = (site / "reference" / "torch_ops.html").read_text()
    assert "softmax(Tensor" in schemas and torch.ops.mpsx.swiglu.default._schema.name.split("::")[1] in schemas
    assert "compile_shader" in (site / "reference" / "mpsx.html").read_text()


def test_support(site: Path) -> None:
    page = (site / "support.html").read_text()
    assert "Driver host" in page and "works; the listed difference is the dtype" in page
    if torch.__version__.startswith(mpsx.strict.lists.VERSION):
        strict = page.split('id="strict-mode-and-pytorchs-lists"')[1]
        totals = re.search(r"<td>all</td>\s*((?:<td[^>]*>\d+</td>\s*){4})", strict)
        pairs, *parts = map(int, re.findall(r">(\d+)<", totals[1]))
        assert pairs == sum(parts) > 4000 and "<code>special.ndtri</code>" in page
    assert "nn.functional.gelu" in (site / "matrix.html").read_text()


def test_pages_are_in_the_navigation(site: Path) -> None:
    index = Page((site / "index.html").read_text()).links
    pages = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    assert pages - {"404.html", "matrix.html"} <= set(index)
