"""The page: all data in it, nothing from outside, no text of a stranger's file as markup; written whole or not at all."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.report.samples import SMALL, TARGET, TIMING, default, tuned

import tensorsmith as ts
from tensorsmith.errors import UserError
from tensorsmith.files import replacing
from tensorsmith.records import Store
from tensorsmith.report import collect, render
from tensorsmith.report.data import Report, Roof
from tensorsmith.runtime.profile import Profile, StepTime
from tensorsmith.targets.target import native


@pytest.fixture
def report(tmp_path: Path) -> Report:
    with Store.open(tuned(tmp_path / "tune.db"), read_only=True) as store:
        return collect.of_records(store)


@pytest.fixture
def without_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "library", lambda: "/* the library */")


def embedded(page: str) -> dict:
    """The data in a page."""
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    return json.loads(found)


def test_the_script_gets_all_data_by_name(report: Report) -> None:
    data = json.loads(json.dumps(render.to_json(report)))
    (setting,), large = data["settings"], data["settings"][0]["tasks"][0]
    assert (setting["target"], setting["trials"], setting["after"]) == (TARGET.key, 10, pytest.approx(5.5e-3))
    assert setting["roof"]["source"] == "estimated"
    assert large["points"]["seconds"] == [9e-3, 3e-3, 5e-3] and large["points"]["at_least"] == [False, False, True]
    assert large["rate"] == pytest.approx(2 * 64**3 / 3e-3) and large["intensity"] == pytest.approx(2 * 64**3 / (3 * 64 * 64 * 4))
    assert large["improvements"][1]["changes"] == [{"what": "D.i.1", "before": "1", "after": "4"}]
    assert set(large) >= {"winner", "plain", "differences", "failures", "forecasts", "in_order", "source", "share", "before"}
    assert data["versions"] and data["kernels"] == [] and data["race"] == []


@pytest.mark.usefixtures("without_library")
def test_a_page_is_one_file_that_asks_nobody(report: Report) -> None:
    page = render.page(report)
    assert "/* the library */" in page and "{{" not in page.replace("{{}}", "")
    assert not re.findall(r'(?:src|href|action)="(?!#|data:)', page)
    assert "@import" not in page and "url(" not in page
    assert embedded(page)["settings"] == json.loads(json.dumps(render.to_json(report)["settings"]))
    assert embedded(page)["refresh"] is None and embedded(render.page(report, 5.0))["refresh"] == 5.0


@pytest.mark.usefixtures("without_library")
def test_a_strangers_text_is_no_markup(report: Report) -> None:
    evil = "</script><script>alert(1)</script> {{script}}"
    page = render.page(dataclasses.replace(report, title=evil, source=evil))
    harmless = page.count("alert(1)\\u003c/script>") + page.count("alert(1)&lt;/script&gt;")
    assert evil not in page and page.count("alert(1)") == harmless == 3
    assert embedded(page)["source"] == evil


@pytest.mark.usefixtures("without_library")
def test_written_whole_or_not_at_all(report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    render.write(report, path)
    before = path.read_text()
    assert before.startswith("<!doctype html>")
    with pytest.raises(UserError, match="cannot be written"):
        render.write(report, tmp_path / "nowhere" / "report.html")
    with pytest.raises(UserError, match="cannot be written: "):
        render.write(report, tmp_path)

    @contextlib.contextmanager
    def half(path: Path) -> Iterator[io.BytesIO]:
        with replacing(path) as stream:
            written = io.BytesIO()
            yield written
            stream.write(written.getvalue()[: len(written.getvalue()) // 2])
            raise OSError("the disk is full")

    monkeypatch.setattr(render, "replacing", half)
    with pytest.raises(UserError, match=r"report\.html cannot be written: the disk is full"):
        render.write(report, path)
    assert not list(tmp_path.rglob("*.part")) and path.read_text() == before


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly", None)  # importing it now fails
    with pytest.raises(UserError, match=r"pip install '\.\[report\]' in a checkout of Tensorsmith$"):
        render.library()


@pytest.mark.usefixtures("without_library")
class TestTheVerb:
    """`ts.report(...)`"""

    def test_of_records(self, tmp_path: Path) -> None:
        found = ts.report(tuned(tmp_path / "tune.db"), tmp_path / "report.html")
        assert isinstance(found, Report) and found.settings[0].trials == 10
        assert embedded((tmp_path / "report.html").read_text())["title"] == "tune.db"

    def test_a_measured_peak_is_this_machines(self, tmp_path: Path) -> None:
        with Store.open(tmp_path / "tune.db") as store:
            store.add(SMALL, native(), TIMING, [default(SMALL, 1e-3)])
            store.add(SMALL, TARGET, TIMING, [default(SMALL, 1e-3)])
        found = ts.report(str(tmp_path / "tune.db"), str(tmp_path / "r.html"), peak={"flops": 5e10, "bytes": 1e10})
        assert [s.roof.source for s in found.settings] == ["measured", "estimated"]
        assert (found.settings[0].roof.flops, found.settings[0].roof.bytes) == (5e10, 1e10)

    def test_of_a_profile(self, tmp_path: Path) -> None:
        profile = Profile("net", (StepTime(0, "conv", "f32[8]", 3e-3, 6000, "record"),))
        found = ts.report(profile, tmp_path / "report.html")
        assert found.kernels[0].share == 1.0 and found.roof is not None and found.roof.source == "estimated"
        assert dict(found.facts)["target"] == native().key
        found = ts.report(profile, tmp_path / "report.html", peak={"flops": 5e10, "bytes": 1e10})
        assert found.roof == Roof(5e10, 1e10, "measured")
        with pytest.raises(UserError, match="give the record file first"):
            ts.report(profile, tmp_path / "report.html", profile=profile)

    def test_a_profile_writes_its_own(self, tmp_path: Path) -> None:
        a = ts.placeholder((16, 24), name="A")
        executable = ts.compile([a, ts.compute((16, 24), lambda i, j: a[i, j] * 2.0, name="B")])
        executable.profile(rounds=1).report(tmp_path / "report.html")
        (kernel,) = embedded((tmp_path / "report.html").read_text())["kernels"]
        assert (kernel["flops"], kernel["bytes"], kernel["intensity"]) == (16 * 24, 2 * 16 * 24 * 4, 0.125)
        assert kernel["rate"] == pytest.approx(kernel["flops"] / kernel["seconds"])

    def test_refusals(self, tmp_path: Path) -> None:
        out, good = tmp_path / "report.html", tuned(tmp_path / "tune.db")
        with pytest.raises(UserError, match="there is no record file"):
            ts.report(tmp_path / "none.db", out)
        (tmp_path / "text.db").write_text("some text, long enough to be no header of a database at all" * 10)
        with pytest.raises(UserError, match="is not a record file"):
            ts.report(tmp_path / "text.db", out)
        (tmp_path / "empty.db").touch()
        with pytest.raises(UserError, match="holds no records yet"):
            ts.report(tmp_path / "empty.db", out)
        with pytest.raises(UserError, match=r"model is 'm\.onnx'; give a Model"):
            ts.report(good, out, model="m.onnx")  # type: ignore[arg-type]
        with pytest.raises(UserError, match=r"give what `exe\.profile"):
            ts.report(good, out, profile=3)  # type: ignore[arg-type]
        with pytest.raises(UserError, match="Give the path of a record file"):
            ts.report(7, out)  # type: ignore[arg-type]
        assert not out.exists()
