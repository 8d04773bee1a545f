"""What notebooks show: tables with the right content, in which no name can do anything."""

from __future__ import annotations

import copy

import pytest
from tests.show.pages import Page
from tests.show.things import EVIL, TARGET, TIMING, everything, matmul, model, open_model, profile, record, store

import tensorsmith as ts
from tensorsmith.lang.flops import flops
from tensorsmith.records.shown import Records
from tensorsmith.show.table import Number, table, text

SHOWN = [thing for things in everything().values() for thing in things if hasattr(thing, "_repr_html_")]


def test_many_kinds_of_objects_are_shown() -> None:
    names = {type(thing).__name__ for thing in SHOWN}
    assert names >= {"Model", "Tasks", "Task", "Workload", "Executable", "Profile", "Benchmark", "Memory", "Records", "Summaries"}
    assert names >= {"Store", "Sketch", "Candidate", "Program", "CpuTarget", "OpenModel", "OpenExecutable", "Variant", "Variants"}


@pytest.mark.parametrize("thing", SHOWN, ids=repr)
def test_html_is_whole_and_of_the_page_s_own_colours(thing: object) -> None:
    page = Page(thing._repr_html_())
    assert page.tables or page.texts
    assert page.tags <= {"div", "b", "table", "thead", "tbody", "tr", "th", "td", "pre"}
    styles = "".join(value or "" for name, value in page.attributes if name == "style")
    assert "inherit" in styles and "#" not in styles and "white;" not in styles and "black" not in styles


def test_a_model_has_ends_and_operators_by_count() -> None:
    ends, operators = Page(model((8, 8, 8, 4), EVIL, "<b>y</b>")._repr_html_()).tables
    assert ends.rows == [["input", "x", "f32[4, 8]"], ["output", "<b>y</b>", "f32[4, 4]"]]
    assert operators.rows == [["matmul", "3"], ["relu", "3"]]
    assert EVIL in Page(model(name=EVIL)._repr_html_()).words and EVIL not in model(name=EVIL)._repr_html_()


def test_tasks_have_work_and_shares() -> None:
    tasks = model((8, 8, 8, 4)).tasks()
    (shown,) = Page(tasks._repr_html_()).tables
    assert shown.heads == ["task", "workload", "calls", "MFLOP", "share of FLOPs", "to tune"]
    work = [flops(t.workload) for t in tasks]
    total = sum(n * t.weight for n, t in zip(work, tasks))
    shares = [f"{n * t.weight / total:.1%}" for n, t in zip(work, tasks)]
    assert [(row[0], row[1], row[2], row[4]) for row in shown.rows] == [
        (t.name, t.workload.key, str(t.weight), share) for t, share in zip(tasks, shares)
    ]
    assert [row[2] for row in shown.rows] == ["2", "1"]


def test_an_executable_has_its_kernels_and_its_memory() -> None:
    small = model((8, 8, 8, 4))
    made = ts.compile(small, target=TARGET)
    page = Page(made._repr_html_())
    kernels, memory = page.tables
    assert [(row[0], row[1], row[3]) for row in kernels.rows] == [(t.name, str(t.weight), "default") for t in small.tasks()]
    assert {row[0] for row in memory.rows} == {"arena", "scratch", "constants"}
    assert "dense(x: f32[4, 8]) -> y: f32[4, 4]" in page.words and "2 kernels in 3 steps for znver3" in page.words


def test_what_is_open_has_its_sizes() -> None:
    page = Page(open_model((4, 8), EVIL)._repr_html_())
    inputs, sizes = page.tables
    assert inputs.rows == [["x", "f32[rows, 8]"]] and sizes.rows == [["rows", "4, 8"]]
    assert f"{EVIL}(x: f32[rows, 8])" in page.words and "2 variants to compile at once" in page.words
    made = ts.compile(open_model(), target=TARGET)
    inputs, variants = Page(made._repr_html_()).tables
    assert variants.heads == ["rows", "weights", "of them shared", "arena", "scratch", "compiled in"]
    assert [row[0] for row in variants.rows] == ["4", "8"]
    assert [float(row[1]) for row in variants.values] == [v.memory.constants for v in made.variants]
    assert Page(made.variants._repr_html_()).tables[0].rows == variants.rows
    page = Page(made.variants[0]._repr_html_())
    assert "rows=4" in page.words and [t.heads[0] for t in page.tables] == ["kernel", "memory"]


def test_a_profile_can_be_ordered_by_time() -> None:
    html = profile()._repr_html_()
    (shown,) = Page(html).tables
    assert [(row[0], row[1], row[2], row[3]) for row in shown.rows] == [
        (f"{EVIL} f32[8]", "1", "9,000.00 us", "56.2%"),
        ("conv f32[8]", "2", "6,000.00 us", "37.5%"),
        ("copy", "1", "1,000.00 us", "6.2%"),
    ]
    seconds = [float(values[2]) for values in shown.values]
    assert seconds == sorted(seconds, reverse=True) and html.count("onclick=") == len(shown.heads)


def test_records_are_ranked_and_failures_have_causes() -> None:
    (shown,) = Page(Records([record(1e-3), record(2e-3), record(None)])._repr_html_()).tables
    assert [(row[0], row[1], row[4]) for row in shown.rows] == [
        ("1 ms", "1.00x", "ok"),
        ("2 ms", "2.00x", "ok"),
        ("-", "-", f"crashed: {EVIL}"),
    ]
    with store() as opened:
        (best,) = Page(opened.top(matmul(), TARGET, TIMING, 5)._repr_html_()).tables
        (all_of_it,) = Page(opened._repr_html_()).tables
    assert best.rows[0][0] == "12.3 us"
    assert [(row[0], row[4], row[5]) for row in all_of_it.rows] == [("C f32[16, 32]", "1", "0"), ("C f32[32, 32]", "2", "1")]


def test_sketches_and_candidates_show_their_loops() -> None:
    things = everything()
    for thing in (things["sketches"][0], things["programs"][0], things["workloads"][0]):
        assert Page(thing._repr_html_()).texts == [str(thing)]
    candidate = things["candidates"][0]
    page = Page(candidate._repr_html_())
    assert page.texts == [str(candidate.sketch)]
    assert all(f"{hole}={value}" in page.words for hole, value in candidate.decisions.items())


def test_cells_are_escaped_and_ordered_by_their_values() -> None:
    html = table([EVIL, "n"], [[EVIL, Number(1.5, EVIL)], ["b", 7]], title=EVIL, note=EVIL, sortable=True) + text(EVIL, note=EVIL)
    page = Page(html)
    assert "script" not in page.tags and EVIL not in html
    (shown,) = page.tables
    assert shown.heads == [EVIL, "n"] and shown.rows == [[EVIL, EVIL], ["b", "7"]] and shown.values == [[None, "1.5"], [None, "7"]]
    assert page.texts == [EVIL] and page.words.count(EVIL) == 7


def test_lists_stay_lists() -> None:
    tasks = model().tasks()
    assert tasks == list(tasks) and copy.copy(tasks) == tasks and type(tasks[:1]) is list
