"""Figures of README and of the pages of evidence are those of the files of results, and none of them is written by hand."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.docs.blocks import ROOT


def loaded() -> ModuleType:
    """docs/make/figures.py; `import figures` may be that of the benchmarks."""
    spec = importlib.util.spec_from_file_location("pages_figures", ROOT / "docs" / "make" / "figures.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


figures = loaded()
standing = sys.modules["standing"]
EVIDENCE = (
    "README.md",
    *(
        f"docs/{name}.md"
        for name in (
            "index", "benchmarks", "networks", "figures", "pytorch", "small-types", "comparison", "platforms", "questions", "why",
            "quantised", "weights", "instructions", "policies", "no-trial", "how-long", "tuning", "c-libraries", "embedding",
        )
    ),
)  # fmt: skip


# -- pages and files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", EVIDENCE)
def test_what_is_between_markers_is_what_the_files_give(page: str) -> None:
    """After new results: `make figures-pages`."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert figures.without_age(figures.rendered(text, figures.read())) == figures.without_age(text)


def test_the_picture_is_what_the_file_gives() -> None:
    assert figures.picture.PICTURE.read_text(encoding="utf-8") == figures.picture.made(figures.read())


def test_every_block_is_shown_and_every_page_with_a_block_is_evidence() -> None:
    shown = [m[2] for page in EVIDENCE for m in figures.MARKED.finditer((ROOT / page).read_text(encoding="utf-8"))]
    assert sorted(shown) == sorted(figures.BLOCKS)
    assert {str(p.relative_to(ROOT)) for p in figures.pages()} <= set(EVIDENCE)


def test_every_table_has_a_block_and_its_page_shows_it() -> None:
    tables = (ROOT / "benchmarks" / "figure_tables.py").read_text(encoding="utf-8")
    known = {(name, page) for name, page in re.findall(r'FigureTable\(\s*"([\w-]+)", "([\w.-]+)"', tables)}
    blocks = {file for block in figures.BLOCKS.values() for file in block.files}
    assert len(known) > 15 and {name for name, _ in known} == blocks
    for name, page in known:
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        assert any(name in figures.BLOCKS[m[2]].files for m in figures.MARKED.finditer(text)), f"{page} does not show {name}"


def files() -> list[Path]:
    return sorted(figures.RESULTS.glob("*.json"))


def test_files_of_one_table_are_of_one_commit_and_can_be_published() -> None:
    results = figures.read()
    for name, block in figures.BLOCKS.items():
        figures.check(name, {file: results[file] for file in block.files if file in results})
    blocks = {file for block in figures.BLOCKS.values() for file in block.files}
    assert set(results) <= blocks, "files of results that no page shows"


def git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)


def test_commits_of_files_are_in_the_history() -> None:
    try:
        shallow = git("rev-parse", "--is-shallow-repository")
    except OSError:
        pytest.skip("there is no git")
    if shallow.returncode or shallow.stdout.strip() == "true":
        pytest.skip("there is no git history here")
    commits = {json.loads(path.read_text(encoding="utf-8"))["commit"] for path in files()}
    assert [c for c in sorted(commits) if git("merge-base", "--is-ancestor", c, "HEAD").returncode] == []


# -- nothing by hand ---------------------------------------------------------------------------------------------------

RATIO = re.compile(r"(?<![\w.])\d+\.\d+ ?x\b|(?<![\w.])\d+\.\d{2,3} times\b|(?<![\w.])\d[\d.,]* ?GFLOP/s")
CELL = re.compile(r"\|\s*\**\d+\.\d{2,3}x?\**\s*(?=\|)")
TIME = re.compile(r"(?<![\w.])\d[\d.,]* (us|µs|ms|microseconds|milliseconds)\b")
PEER = re.compile(r"\b(ours|torch|PyTorch|inductor|eager|ONNX Runtime|onnxruntime|OpenVINO|openvino|TVM|Halide)\b", re.IGNORECASE)
EXEMPT = re.compile(r"<!-- not measured: [^>]+ -->\n\n?.*?(?=\n\n|\Z)", re.DOTALL)


def by_hand(text: str) -> Iterator[str]:
    """Lines outside of markers and code that look like a measured figure: a ratio, a rate, a table of decimals, or a time in a
    sentence about ours or a peer. What is not measured says so in a comment before it."""
    text = figures.MARKED.sub("", text)
    text = re.sub(r"^\s*```.*?^\s*```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = EXEMPT.sub("", text)
    for line in text.splitlines():
        if (
            RATIO.search(line)
            or CELL.search(line)
            or any(TIME.search(s) and PEER.search(s) for s in re.split(r"(?<=[.:;]) ", line))
        ):
            yield line


@pytest.mark.parametrize("page", EVIDENCE)
def test_no_figure_is_written_by_hand(page: str) -> None:
    assert list(by_hand((ROOT / page).read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "line",
    [
        "It is 1.38x the best peer.", "| C2D | 1.38 | 2 |", "1.381 times the best peer", "It does 226 GFLOP/s.",
        "ONNX Runtime takes 8.30 us, ours 0.63.", "| a | **1.02x** |",
    ],
)  # fmt: skip
def test_a_figure_by_hand_is_noticed(line: str) -> None:
    assert list(by_hand(f"# Page\n\n{line}\n")) == [line]
    assert not list(by_hand(f"<!-- figures: drawn -->\n{line}\n<!-- /figures -->\n"))
    assert not list(by_hand(f"<!-- not measured: an example -->\n{line}\n\nText.\n"))


def test_settings_are_no_figures() -> None:
    assert not list(by_hand("A pause of 20 ms at least. Samples for 15 ms; version 2.13 x86; 8 times as often.\n"))


# -- the generator -----------------------------------------------------------------------------------------------------


def row(ours: float, peer: float, **more: Any) -> dict[str, Any]:
    """Medians are a tenth longer, the peer's a fifth."""
    seconds = {
        "tensorsmith": ours,
        "tensorsmith untuned": 1.25 * ours,
        "tensorsmith code alone": ours / 2,
        "openvino infer": peer,
        "torch": 2 * peer,
    }
    medians = {name: s * (1.2 if name == "openvino infer" else 1.1) for name, s in seconds.items()}
    return {
        "seconds": seconds,
        "median_seconds": medians,
        "trials": 64,
        "disturbed": 0.0,
        "formulation": "direct",
        "operator": "C2D",
        **more,
    }


def result(cases: dict[str, Any], **more: Any) -> dict[str, Any]:
    learned = {"sha256": "0", "learned_from": "what it learned from"}
    return {
        "table": "t", "commit": "c" * 40, "dirty": False, "quick": False, "date": "2026-01-02 03:04 UTC", "seconds": 60,
        "command": "python benchmarks/ops.py --seed 7", "versions": {"Python": "3.11", "torch": "2.13"},
        "machine": {"cpu": "a CPU", "cores": 2, "memory_bytes": 2**33, "system": "Linux 6"},
        "search": {"database": "none", "pretrained_model": learned}, "cases": cases, **more,
    }  # fmt: skip


CASES = {
    "fast": row(1e-3, 2e-3),
    "winograd": row(1e-3, 4e-3, formulation="winograd", untuned_formulation="winograd"),
    "small": row(4e-6, 8e-6),
    "behind": row(1e-3, 0.9e-3),
}


def test_a_summary_has_all_that_does_not_flatter() -> None:
    found = standing.standing(CASES, True)
    assert found.ratios == pytest.approx({"fast": 2, "winograd": 4, "small": 2, "behind": 0.9})
    cells = dict(zip(standing.COLUMNS, standing.cells("tuned", found)))
    mean = (2 * 4 * 2 * 0.9) ** 0.25
    assert cells["geometric mean: best samples"] == f"{mean:.2f}x" and cells["medians"] == f"{mean * 12 / 11:.2f}x"
    assert cells["ahead"] == "3 of 4 (75%)" and cells["behind"] == "1: 0.900"
    assert cells["without the best row"] == cells["without Winograd's rows"].split()[0] == f"{(2 * 2 * 0.9) ** (1 / 3):.2f}x"
    assert cells["under 20 us"] == "2.00x (1)" and cells["20 us and more"] == f"{(2 * 4 * 0.9) ** (1 / 3):.2f}x (3)"
    untuned = standing.standing(CASES, False)
    assert untuned.ratios["fast"] == pytest.approx(1.6) and untuned.behind == pytest.approx({"behind": 0.72})


def test_what_failed_is_counted() -> None:
    failed = {"seconds": {"torch": 1e-3}, "median_seconds": {"torch": 1e-3}, "error": "no", "trials": 64}
    found = standing.standing({**CASES, "no": failed}, True)
    assert found.failed == ("no",) and "1 failed" in standing.cells("", found)[-1]


def test_without_a_search_ours_is_untuned() -> None:
    plain = {"a": {"seconds": {"tensorsmith": 1.0, "torch": 2.0}, "median_seconds": {"tensorsmith": 1.0, "torch": 2.0}}}
    assert standing.standing(plain, True) is None and standing.standing(plain, False).ratios == {"a": 2.0}
    same = {"a": {**plain["a"], "trials": 64, "same_program": True}}
    assert standing.standing(same, True).ratios == standing.standing(same, False).ratios == {"a": 2.0}


PAGE = "Before.\n\n<!-- figures: drawn -->\nold\n<!-- /figures -->\n\nAfter.\n"


def test_a_page_is_written_between_its_markers_alone() -> None:
    made = figures.rendered(PAGE, {"drawn": result(CASES)}, lambda commit: 3)
    assert (
        made.startswith("Before.\n\n<!-- figures: drawn -->\n")
        and made.endswith("<!-- /figures -->\n\nAfter.\n")
        and "old" not in made
    )
    assert "| fast | 2.00 | 2.18 | 1.60 | 1.75 | openvino infer |" in made
    assert "Commit `cccccccccccc` of 2026-01-02, 3 commits before this page was made. a CPU, 2 cores, 8 GiB" in made
    assert (
        "what it learned from" in made
        and "Tuned: behind in 1 of 4: behind 0.900." in made
        and "The best peer was openvino infer (4)." in made
    )
    assert figures.rendered(made, {"drawn": result(CASES)}, lambda commit: 3) == made


def test_the_age_alone_makes_no_difference() -> None:
    results = {"drawn": result(CASES)}
    one, other = (figures.rendered(PAGE, results, lambda commit, n=n: n) for n in (1, 12))
    none = figures.rendered(PAGE, results, lambda commit: None)
    assert one != other and figures.without_age(one) == figures.without_age(other) == figures.without_age(none)


def test_a_block_without_a_file_says_so() -> None:
    assert figures.MISSING in figures.rendered(PAGE, {}, lambda commit: 0)
    some = {"drawn": result(CASES)}
    text = figures.block("summary", some, lambda commit: 0)
    assert text.count(figures.MISSING) == 4 and "4 operators and subgraphs drawn" in text and "seed 7" in text


def test_a_summary_has_drawn_cases_first_and_then_those_of_the_paper() -> None:
    lines = figures.block("summary", {n: result(CASES) for n in figures.BLOCKS["summary"].files}, lambda commit: 0).splitlines()
    rows = [line for line in lines if line.startswith("| ")][2:]
    assert "drawn" in rows[0] and "**tuned**" in rows[0] and "**untuned**" in rows[1] and "Ansor paper" in rows[2]
    assert "has learned from them" in rows[2]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"commit": "d" * 40}, "different commits"),
        ({"dirty": True}, "not committed"),
        ({"quick": True}, "--quick"),
        ({"machine": {}}, "different machines"),
    ],
)
def test_unsound_files_are_refused(change: dict[str, Any], why: str) -> None:
    files = {"drawn": result(CASES), "operators-b1": result(CASES, **change)}
    with pytest.raises(figures.Unsound, match=why):
        figures.block("summary", files, lambda commit: 0)


def test_every_block_can_be_written() -> None:
    """From small files of each form."""
    step = {
        "tensorsmith f32": {
            "seconds": 1e-3,
            "times_f32": 1.0,
            "by_medians": 1.0,
            "times_onnxruntime": 1.1,
            "error": 0.01,
            "same_tokens": 3,
        }
    }
    names = {"tensorsmith bf16": 1e-3, "tensorsmith f32": 2e-3, "tensorsmith bf16 widened": 3e-3}
    outside = dict.fromkeys(("tensorsmith", "tensorsmith equal seconds", "tensorsmith untuned", "tvm-wheel", "halide-wheel"), 0.001)
    int8 = row(
        1e-3, 2e-3, equal_to_exact=1.0, within_a_step_of_exact={"tensorsmith": 1.0, "openvino infer": 0.5}, ratio_to_own_f32=3.0
    )
    module = row(
        1e-3, 2e-3, graphs=1, kernels=3, parameters=100, difference={"tensorsmith": 1e-6}, seconds_preparing={"tensorsmith": 1.0}
    )
    kernel = {"name": "k", "calls": 1, "seconds": 1e-3, "bound": 0.9e-3, "limit": "FMA", "share": 0.9}
    compiled = {"nodes": 1, "calls": 2, "kernels": 3, "cpu": 1.0, "wall": 0.5, "phases": {"llvm": 0.2}}
    searching = {"tensorsmith": 3.0, "tvm-wheel": 9.0}
    made = {
        "weights": {"w": {**row(1, 2), "weights": step}}, "gpt2": {"g": {**row(1, 2), "steps": step}},
        "bf16": {"matmul": {"seconds": names, "median_seconds": names}},
        "call-overhead": {"call: kernel": {"total": 1e-6, "median": 2e-6}, "region": {"total": 1.0}},
        "compile-times": {"m": compiled, "n": {"error": "no"}},
        "bounds": {"net": {"kernels": [kernel]}},
        "no-trial": {"c": {"schedule": "default", "against_default": 1.0, "choosing": 0.5}},
        "policies": {"tensorsmith": {"speeds": {"16": {"a": 1.0}}}, "ansor": {"speeds": {"16": {"a": 0.5}}}},
        "paper": {"6 ours": {"figure": "6", "title": "operators", "groups": {"C2D": {"torch": 0.5, "ansor": 1.0}}}},
        "outside": {"GMM-1-b1": {"seconds": outside, "median_seconds": outside, "trials": 64, "searching": searching}},
        "int8-layers": {"l": int8}, "int8-networks": {"n": int8}, "int8-avx2": {"l": int8}, "int8-avx2-small": {"l": int8},
        "torch": {"dcgan": module},
    }  # fmt: skip
    made["parts"] = {"tensorsmith": {"speeds": {"16": {"a": 1.0}}}}
    files = {file: result(made.get(file, CASES)) for block in figures.BLOCKS.values() for file in block.files}
    for name in figures.BLOCKS:
        text = figures.block(name, files, lambda commit: 1)
        assert "| --- |" in text and figures.MISSING not in text and "Commit `cccc" in text, name
    assert "our implementation of Ansor's policy on our code generator" in figures.block("policies", files, lambda commit: 1)
    assert "our implementation of Ansor's policy on our code generator" in figures.block("paper", files, lambda commit: 1)
    assert "as many seconds as TVM, against tvm-wheel" in figures.block("outside", files, lambda commit: 1)


def test_the_picture_shows_both_means_and_small_kinds() -> None:
    cases = {"a": row(1e-3, 2e-3), "b": row(4e-6, 8e-6, operator="NRM"), "c": row(1e-3, 2e-3, operator="GMM")}
    svg = figures.picture.made({"operators-b1": result(cases)})
    assert svg.count("<rect") == 4 and "2.00x, medians 2.18x, under 20 us" in svg and "matrix product" in svg
    assert "not measured yet" in figures.picture.made({})
