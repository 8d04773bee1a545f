"""What the pages say about the project is so: links, files, names, versions."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from tests.docs.blocks import ROOT, pages

import tensorsmith as ts
from tensorsmith.backends.cpu.named import NAMED
from tensorsmith.learn.models import file as model_file
from tensorsmith.records import record, schema
from tensorsmith.runtime import file as executable_file
from tensorsmith.targets import target

DOCS = ROOT / "docs"
ALL = [*pages(), "CONTRIBUTING.md", "CHANGELOG.md", "THIRD_PARTY.md"]


def text_of(page: str) -> str:
    """A page without its blocks, in which nothing is a link."""
    return re.sub(r"^\s*```.*?^\s*```", "", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)


# -- links and files ---------------------------------------------------------------------------------------------------


def anchors(path: Path) -> set[str]:
    """Of the headings of a page, as the site makes them."""
    headings = re.findall(r"^#+ (.+)$", text_of(str(path.relative_to(ROOT))), re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", h).strip().lower()) for h in headings}


def broken(page: str, text: str) -> Iterator[str]:
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith(("https://", "http://")):
            continue
        name, _, anchor = link.partition("#")
        there = ((ROOT / page).parent / name).resolve() if name else ROOT / page
        if not there.exists() or (anchor and anchor not in anchors(there)):
            yield link


@pytest.mark.parametrize("page", ALL)
def test_links_lead_somewhere(page: str) -> None:
    assert list(broken(page, text_of(page))) == []


def files_named(text: str) -> set[str]:
    """Paths of files and folders in backticks: `space/derive.py`, `tests/golden/`, `docs/make/reference.py`. A folder by its own
    name alone is one of those that the page speaks of."""
    words = re.findall(r"`([\w./-]+)`", text)
    return {w for w in words if "/" in w.rstrip("/") and (w.endswith("/") or re.search(r"\.(py|md|yml|toml|svg)$", w))}


def is_there(name: str) -> bool:
    return any((ROOT / folder / name).exists() for folder in ("", "src/tensorsmith", "docs"))


@pytest.mark.parametrize("page", ALL)
def test_files_that_are_named_exist(page: str) -> None:
    assert [name for name in sorted(files_named(text_of(page))) if not is_there(name)] == []


def navigation() -> list[str]:
    return re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)


def test_the_navigation_has_every_page_once() -> None:
    found = navigation()
    there = {str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md")}
    assert len(found) == len(set(found))
    assert there == set(found)


def part(name: str) -> list[str]:
    """The pages of a part of the navigation."""
    text = (ROOT / "mkdocs.yml").read_text().partition(f"\n  - {name}:\n")[2]
    return re.findall(r"^      - .+: ([\w/-]+\.md)$", re.split(r"^  - ", text, flags=re.MULTILINE)[0], re.MULTILINE)


@pytest.mark.parametrize("page", part("Use"))
def test_a_page_of_use_is_short_and_shows_no_measurements(page: str) -> None:
    text = (DOCS / page).read_text()
    assert len(text.split()) <= 900 and "<!-- figures:" not in text


def test_why_is_read_in_ten_minutes_and_readme_is_short() -> None:
    assert len((DOCS / "why.md").read_text().split()) <= 1500
    assert len((ROOT / "README.md").read_text().splitlines()) < 120
    assert len(part("Use")) > 10 and part("Evidence") and not part("Nothing")


def test_the_paper_names_every_rule_and_the_parts_of_the_search() -> None:
    page = files_named(text_of("docs/paper.md"))
    folders = ("space/rules", "backends/cpu/rules", "search/policies")
    rules = {f"src/tensorsmith/{f}/{p.name}" for f in folders for p in (ROOT / "src/tensorsmith" / f).glob("*.py")}
    rules -= {r for r in rules if r.endswith(("__init__.py", "base.py", "policies/random.py"))}
    assert rules - page <= {r for r in rules if "policies/" in r and not r.endswith(("ansor.py", "tensorsmith.py"))}
    assert len(page) > 50


def test_wrong_links_and_files_are_noticed() -> None:
    links = "[a](nothing.md) [b](#shapes-that-vary) [c](#two) [d](tuning.md#stop-and-resume) [e](howto.md#never)"
    assert list(broken("docs/howto.md", links)) == ["nothing.md", "#two", "howto.md#never"]
    named = files_named("`space/nothing.py` `space/derive.py` `ts.tune`")
    assert [f for f in sorted(named) if not is_there(f)] == ["space/nothing.py"]


# -- what is said about versions, machines, licences -------------------------------------------------------------------


def versions_of_formats() -> dict[str, str]:
    rows = re.findall(r"^\| ([^|(]+) (?:\(.*?\) )?\| [^|]+ \| (\d+)", (DOCS / "formats.md").read_text(), re.MULTILINE)
    return {name.strip(): version for name, version in rows}


def test_versions_of_formats() -> None:
    assert versions_of_formats() == {
        "record file": str(schema.VERSION),
        "records as JSON lines": str(record.FORMAT),
        "executable": str(executable_file.VERSION),
        "target as JSON": str(target.VERSION),
        "cost model": str(model_file._VERSION),
    }


def test_every_named_machine_has_a_state() -> None:
    said = (DOCS / "platforms.md").read_text()
    alias = {"x86-64-v3": "AVX2 and FMA", "znver3": "AMD Zen 3", "znver4": "AMD Zen 4"}
    assert [name for name in NAMED if f"`{name}`" not in said and alias.get(name, "-") not in said] == []


def requirements() -> dict[str, str]:
    """The least version of each package that users need."""
    wanted = re.findall(r'"([a-z]+)>=([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    return dict(wanted)


def test_versions_that_are_needed() -> None:
    page = (DOCS / "platforms.md").read_text()
    rows = {name.lower(): least for name, least in re.findall(r"^\| (\w+)[^|]*\| ([\d.]+) or newer", page, re.MULTILINE)}
    project = (ROOT / "pyproject.toml").read_text()
    known = requirements() | {"pytorch": re.findall(r'^torch = \["torch>=([\d.]+)"', project, re.MULTILINE)[0]}
    assert {name: least for name, least in rows.items() if name != "python"} == {n: known[n] for n in rows if n != "python"}
    assert rows["python"] == "3.10" and f'requires-python = ">={rows["python"]}"' in project


def test_the_licences_of_all_that_is_installed_are_listed() -> None:
    rows = dict(re.findall(r"^\| ([\w-]+) \| ([^|]+) \|", (ROOT / "THIRD_PARTY.md").read_text(), re.MULTILINE))
    needed = {"numpy", "llvmlite", "lightgbm", "rich", "typer", "onnx", "plotly"}
    assert needed <= set(rows) and all(len(licence) > 2 for licence in rows.values())
    project = (ROOT / "pyproject.toml").read_text()
    direct = re.findall(r'"([a-z]+)>=', project.partition("dependencies = [")[2].partition("]")[0])
    assert direct and set(direct) <= needed


def test_the_changelog_knows_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert f"\n## {ts.__version__}\n" in text and "\n## Unreleased\n" in text
    assert f'\nversion = "{ts.__version__}"\n' in (ROOT / "pyproject.toml").read_text()


# -- the reference ---------------------------------------------------------------------------------------------------


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / "make" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def referred() -> list[str]:
    text = "\n".join(page.read_text() for page in sorted((DOCS / "api").glob("*.md")))
    return re.findall(r"^::: (\S+)", text, re.MULTILINE)


def resolve(name: str) -> object:
    """The object of a dotted name."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        for part in parts[n:]:
            found = getattr(found, part)
        return found
    raise AssertionError(f"there is no {name}")


@pytest.mark.parametrize("name", referred())
def test_what_the_reference_refers_to_exists_and_has_a_docstring(name: str) -> None:
    assert getattr(resolve(name), "__doc__", None), f"{name} has no docstring"


def test_the_reference_has_every_word_of_the_language() -> None:
    """After a new word: `python docs/make/reference.py`."""
    reference = script("reference")
    assert reference.PAGE.read_text() == reference.page()
    assert all(len(names) > 3 for names in reference.sections().values())


def test_the_reference_has_every_public_name() -> None:
    from tensorsmith import testing

    known = {id(resolve(name)) for name in referred()}
    assert [n for n in ts.__all__ if id(getattr(ts, n)) not in known] == []
    assert [n for n in testing.__all__ if id(getattr(testing, n)) not in known] == []
    modules = {p.stem for p in (ROOT / "src/tensorsmith/ops").glob("*.py")} - {"__init__", "common"}
    assert [m for m in sorted(modules) if f"tensorsmith.ops.{m}" not in referred()] == []


# -- the site ----------------------------------------------------------------------------------------------------------


def test_a_site_that_needs_a_network_is_noticed(tmp_path: Path) -> None:
    """`make docs` asks this of the whole site."""
    problems = script("check_site").problems
    (tmp_path / "search").mkdir()
    (tmp_path / "search" / "search_index.json").write_text('{"docs": [{"location": "index.html#top"}]}')
    (tmp_path / "style.css").write_text("body { color: black }")
    (tmp_path / "index.html").write_text('<link rel="stylesheet" href="style.css?v=1"><a href="https://arxiv.org">the paper</a>')
    assert problems(tmp_path) == []
    (tmp_path / "style.css").write_text('@font-face { src: url("https://fonts.example/a.woff") }')
    (tmp_path / "index.html").write_text('<script src="//cdn.example/a.js"></script><img src="picture.svg">')
    (tmp_path / "more.html").write_text("more")
    assert problems(tmp_path) == [
        "index.html fetches //cdn.example/a.js",
        "index.html fetches picture.svg, which is not there",
        "style.css fetches https://fonts.example/a.woff",
        "more.html cannot be searched",
    ]
