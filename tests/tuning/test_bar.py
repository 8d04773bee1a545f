"""The line of a run in a terminal: it fits, whatever there is to say, and says how long it still takes."""

from __future__ import annotations

import io
import re
import sys
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from tests.measure.small import matmul
from tests.show.pages import Page

from tensorsmith.tuning.progress.bar import Part, bar, fitted, shortened
from tensorsmith.tuning.progress.network import NetworkProgress, Settled
from tensorsmith.tuning.progress.reporter import LiveLine, NotebookBar, PlainLines, make_reporter
from tensorsmith.tuning.progress.workload import Paced, Progress

WORKLOAD = matmul()
LONG = "conv+add+relu+multiply+sigmoid+.. f32[1, 112, 112, 64]"
seconds = st.floats(1e-9, 1e5)
names = st.one_of(st.text(max_size=60), st.sampled_from(["resnet50", "モデル" * 12, "torch_jit_main_graph_of_a_long_name"]))
counts = st.integers(0, 10**6)


@st.composite
def states(draw: st.DrawFn) -> Paced:
    wanted = draw(st.one_of(st.none(), st.integers(1, 10**6)))
    shared: dict[str, Any] = {
        "trials": draw(st.integers(0, wanted or 10**6)),
        "wanted": wanted,
        "elapsed": draw(st.floats(0.0, 1e6)),
        "seconds": draw(seconds) if wanted is None else draw(st.one_of(st.none(), seconds)),
        "failures": Counter({"crashed": draw(counts)}),
    }
    if draw(st.booleans()):
        return Progress(
            WORKLOAD, best_seconds=draw(st.one_of(st.none(), seconds)), peak=draw(st.one_of(st.none(), st.just(1e12))), **shared
        )
    networks = draw(st.lists(names, min_size=1, max_size=4))
    tasks = draw(st.integers(1, 500))
    return NetworkProgress(
        tuple(networks),
        tuple(draw(seconds) for _ in networks),
        tuple(draw(seconds) for _ in networks),
        draw(st.integers(0, tasks)),
        tasks,
        draw(st.one_of(names, st.just(LONG))),
        first_look=draw(st.booleans()),
        **shared,
    )


@given(states(), st.integers(1, 200))
def test_a_line_fits_and_keeps_the_time_left(state: Paced, width: int) -> None:
    text = state.line(width)
    assert cell_len(text) <= width and text.isprintable()
    if state.seconds_left and state.trials != state.wanted and width >= 20:
        assert re.search(r"\b\d+(h\d\dm|m\d\ds|s) left\b", text), text


@settings(max_examples=50)
@given(states())
def test_a_terminal_of_80_columns_shows_it_on_one_line(state: Paced) -> None:
    stream = io.StringIO()
    console = Console(width=80, record=True, file=stream, force_terminal=True, highlight=False)
    live = LiveLine(console)
    live.update(state)
    assert console.export_text(clear=False).rstrip() == state.line(80).rstrip()
    live.update(state)
    live.close()
    frames = [frame for frame in re.split(r"[\r\n]|\x1b\[[0-9;?]*[A-Za-z]", stream.getvalue()) if frame.strip()]
    assert len(frames) >= 2 and {frame.rstrip() for frame in frames} == {state.line(80).rstrip()}
    assert max(map(cell_len, frames)) <= 80
    if state.seconds_left and state.trials != state.wanted:
        assert all(" left" in frame for frame in frames)


def network(**options: Any) -> NetworkProgress:
    usual: dict[str, Any] = {"measured": 20, "tasks": 20, "task": LONG, "trials": 120, "wanted": 640, "elapsed": 60.0}
    return NetworkProgress(("resnet",), (310e-6,), (530e-6,), **{**usual, **options})


def test_what_a_network_s_line_says() -> None:
    full = network(failures=Counter(crashed=2))
    assert full.line(200) == (
        f"[##----------]  120/640 trials  resnet  530 us -> 310 us, 1.71x  20 tasks  4m20s left  2 failed  2.0/s  {LONG}"
    )
    assert full.line(80) == "[##----------]  120/640 trials  resnet  530 us -> 310 us, 1.71x  4m20s left"
    assert full.line(12) == "4m20s left"
    look = network(measured=5, first_look=True)
    assert look.line(80) == "[##----------]  120/640 trials  first look at 5/20 tasks  4m20s left  2.0/s"
    assert "530" not in str(look) and "a first look at every task, 5 of 20 tasks" in str(look)
    several = NetworkProgress(("a", "b"), (1e-3, 1e-3), (2e-3, 2e-3), 3, 3, "", 10, None, 5.0, seconds=10.0)
    assert several.line(90) == "[######------]  10 trials  2 models  4 ms -> 2 ms, 2.00x  3 tasks  5s left  2.0/s"


def test_what_a_workload_s_line_says() -> None:
    found = Progress(WORKLOAD, 32, 64, 1e-6, 4.0, peak=49.152e9).line(90)
    assert found == "[######------]  32/64 trials  best 1 us alone  24.6 GFLOP/s (50% of peak)  4s left  8.0/s"
    assert Progress(WORKLOAD, 0, 64, None, 0.0).line(80) == "[------------]  0/64 trials  nothing measured yet"


def test_parts_go_by_their_rank() -> None:
    parts = [Part("aaaa", 2), Part("bbbb", 0), Part("cccc", 1), Part("d" * 20, 3, cut=True)]
    assert fitted(parts, 40) == f"aaaa  bbbb  cccc  {'d' * 20}"
    assert fitted(parts, 30) == "aaaa  bbbb  cccc  dddddddddd.."
    assert fitted(parts, 20) == "aaaa  bbbb  cccc"
    assert fitted(parts, 15) == "bbbb  cccc" and fitted(parts, 5) == "bbbb" and fitted(parts, 3) == "b.."
    assert shortened("モデル", 5) == "モ.." and shortened("ab", 1) == "." and shortened("ab", 2) == "ab"
    assert (bar(-1), bar(0.5), bar(7)) == (f"[{'-' * 12}]", f"[{'#' * 6}{'-' * 6}]", f"[{'#' * 12}]")


def test_the_last_line() -> None:
    assert str(Settled(530e-6, 310e-6)) == "530 us -> 310 us, 1.7x in the network"
    assert str(Settled(1.5e-3, 1e-3, estimated=True)) == "1.5 ms -> 1 ms, 1.5x (estimated: the sum of its tasks)"


# -- notebooks ---------------------------------------------------------------------------------------------------------------


class FakeNotebook:
    """IPython as it is in a kernel, as far as it is asked."""

    def __init__(self, kernel: object = "a kernel") -> None:
        self.shown: list[str] = []  # what stands in the cell, the latest last
        self.displays = 0
        self.shell = SimpleNamespace(kernel=kernel)
        self.package = SimpleNamespace(get_ipython=lambda: self.shell)
        self.display = SimpleNamespace(HTML=lambda html: html, display=self._display)

    def _display(self, html: str, display_id: bool) -> FakeNotebook:
        assert display_id
        self.displays += 1
        self.shown.append(html)
        return self

    def update(self, html: str) -> None:
        self.shown.append(html)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "IPython", self.package)
        monkeypatch.setitem(sys.modules, "IPython.display", self.display)


def test_in_a_notebook_one_bar_changes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    notebook = FakeNotebook()
    notebook.install(monkeypatch)
    reporter = make_reporter(None)
    assert isinstance(reporter, NotebookBar)
    reporter.update(network(trials=160))
    reporter.update(network(trials=320))
    reporter.say("for people")
    reporter.close()
    assert notebook.displays == 1 and len(notebook.shown) == 2
    first, last = map(Page, notebook.shown)
    assert dict(first.attributes)["value"] == "0.2500" and dict(last.attributes)["value"] == "0.5000"
    assert "50%" in last.words and str(network(trials=320)) in last.words
    assert capsys.readouterr().out == "for people\n"


def test_names_in_a_notebook_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = FakeNotebook()
    notebook.install(monkeypatch)
    make_reporter(None).update(network(task="<script>"))
    assert "script" not in Page(notebook.shown[0]).tags and "<script>" in Page(notebook.shown[0]).words


def test_what_is_given_wins_and_ipython_in_a_terminal_is_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeNotebook().install(monkeypatch)
    assert type(make_reporter(print)).__name__ == "Callback"
    FakeNotebook(kernel=None).install(monkeypatch)
    assert isinstance(make_reporter(None), PlainLines)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert isinstance(make_reporter(None), PlainLines)
