"""The machine that makes figures: what a file of results knows of its making, what is refused, what is passed over."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

import figures
import results
from figure_tables import MINUTES, TABLES, TIERS, FigureTable, minutes, of_tier

BENCHMARKS = Path(results.__file__).parent
SCRIPT = """import json, sys
runs = json.loads(open(sys.argv[1]).read()) + 1
open(sys.argv[1], "w").write(str(runs))
if len(sys.argv) > 3 and sys.argv[3] == "fail":
    sys.exit(3)
open(sys.argv[2], "w").write(json.dumps({"_run": {}, "case": {"seconds": {"tensorsmith": 1.0}, "runs": runs}}))
sys.exit(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
"""


class Place:
    """A repository with a benchmark that counts how often it ran."""

    def __init__(self, folder: Path) -> None:
        self.root, self.counter = folder, folder / "counter"
        self.counter.write_text("0")
        for name in ("src", "benchmarks", "docs"):
            (folder / name).mkdir()
        self.write("benchmarks/bench.py", SCRIPT)
        self.write("src/code.py", "1")
        self.git("init", "-q")
        self.commit("first")

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)

    def git(self, *words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        return subprocess.run(["git", *who, *words], cwd=self.root, capture_output=True, text=True, check=True).stdout.strip()

    def commit(self, message: str) -> str:
        self.git("add", "src", "benchmarks", "docs")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def table(self, *more: str) -> FigureTable:
        words = (str(self.counter), "{json}", *more)
        return FigureTable("some", "benchmarks.md", True, "bench.py", words, 1, words, 1)

    @property
    def runs(self) -> int:
        return int(self.counter.read_text())

    @property
    def file(self) -> Path:
        return self.root / "docs" / "results" / "some.json"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    made = Place(tmp_path)
    monkeypatch.setattr(results, "ROOT", tmp_path)
    monkeypatch.setattr(figures, "HERE", tmp_path / "benchmarks")
    monkeypatch.setattr(figures, "WORK", tmp_path / "build")
    return made


def made(place: Place, *more: str, **how: bool) -> str | None:
    return figures.make(place.table(*more), place.file.parent, **how)


def test_a_file_says_what_it_is_of(place: Place) -> None:
    assert made(place) is None
    found = results.read(place.file)
    assert found["commit"] == place.git("rev-parse", "HEAD") and not found["dirty"] and not found["quick"]
    assert found["command"].startswith("python benchmarks/bench.py ") and found["command"].endswith("some.json")
    assert found["cases"] == {"case": {"seconds": {"tensorsmith": 1.0}, "runs": 1}}
    assert {"cpu", "cores", "memory_bytes", "system"} == set(found["machine"]) and found["machine"]["memory_bytes"] > 2**20
    assert {"Python", "numpy", "llvmlite", "torch", "onnxruntime", "openvino", "apache-tvm", "halide"} <= set(found["versions"])
    assert found["versions"]["numpy"] and "empty" in found["search"]["database"]
    model = found["search"]["pretrained_model"]
    assert re.fullmatch("[0-9a-f]{64}", model["sha256"]) and "batch 1" in model["learned_from"]


def test_what_is_there_is_passed_over_until_the_code_changes(place: Place) -> None:
    for _ in range(3):
        assert made(place) is None
    assert place.runs == 1
    place.write("docs/page.md", "a page")
    place.commit("only a page")
    assert made(place) is None and place.runs == 1
    place.write("src/code.py", "2")
    second = place.commit("other code")
    assert made(place) is None and place.runs == 2 and results.read(place.file)["commit"] == second


def test_another_command_is_another_table(place: Place) -> None:
    made(place)
    assert made(place, "0") is None and place.runs == 2


@pytest.mark.parametrize("name", ["src/code.py", "src/new.py", "benchmarks/bench.py"])
def test_code_that_is_not_committed_is_refused(place: Place, name: str) -> None:
    place.write(name, SCRIPT)
    if name == "benchmarks/bench.py":
        place.write(name, SCRIPT + "\n")
    with pytest.raises(results.NotCommitted, match=name):
        made(place)
    assert place.runs == 0 and not place.file.exists()
    assert made(place, dirty=True) is None and results.read(place.file)["dirty"]
    assert made(place, dirty=True) is None and place.runs == 2, "a dirty file is never taken for done"


def test_pages_may_differ(place: Place) -> None:
    place.write("docs/page.md", "a page that is not committed")
    assert made(place) is None and not results.read(place.file)["dirty"]


def test_quick_figures_are_marked_and_others_do_not_take_them(place: Place) -> None:
    assert made(place, quick=True) is None and results.read(place.file)["quick"]
    assert made(place) is None and place.runs == 2 and not results.read(place.file)["quick"]


def test_a_command_that_fails_leaves_no_file(place: Place) -> None:
    assert "exit status 3, without figures" in (made(place, "fail") or "")
    assert not place.file.exists()
    assert "exit status 7" in (made(place, "7") or "") and not place.file.exists()
    assert made(place, "1") is None, "exit status 1: a row has an error, which it tells itself"


def test_a_command_that_hangs_is_ended(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write("benchmarks/bench.py", "import time\ntime.sleep(100)\n")
    place.commit("hangs")
    monkeypatch.setattr(figures, "PATIENCE", 1 / 600)
    assert "ended after" in (made(place) or "")


def test_outside_of_a_repository_there_are_no_figures(place: Place, tmp_path: Path) -> None:
    (tmp_path / ".git").rename(tmp_path / "elsewhere")
    with pytest.raises(results.NotCommitted, match="no git history"):
        made(place)


# -- the tables --------------------------------------------------------------------------------------------------------


def test_tiers_fit_their_hours() -> None:
    for tier in TIERS:
        assert 0 < minutes(of_tier(tier), tier == "quick") <= MINUTES[tier] + 1e-6
    assert {t.name for t in of_tier("readme")} < {t.name for t in of_tier("all")} == set(TABLES)
    assert "drawn" in {t.name for t in of_tier("readme")}


@pytest.mark.parametrize("name", TABLES)
def test_commands_are_those_of_scripts(name: str) -> None:
    """Scripts and options exist, every command writes a JSON file, and no search builds upon an old database."""
    table = TABLES[name]
    source = (BENCHMARKS / table.script).read_text(encoding="utf-8")
    for words in (table.words, table.quick):
        for word in words or ():
            assert not word.startswith("--") or f'"{word}"' in source, f"{table.script} has no {word}"
        assert words is None or "{json}" in words
        assert not {"--db", "--database", "--school"} & set(words or ())
    assert table.form in results.CASES and (BENCHMARKS.parent / "docs" / table.page).is_file()


def test_peers_are_not_chosen_by_tables() -> None:
    """All that a script knows take part: nobody leaves out who is fast."""
    assert not [t.name for t in TABLES.values() if "--peers" in t.words]


def test_forms_of_scripts_become_cases() -> None:
    assert results.CASES["rows"]({"_run": 1, "a": {}}) == {"a": {}}
    assert results.CASES["models"]({"about": 1, "models": {"a": {}}}) == {"a": {}}
    speeds = {"16": {"p": {"w": 0.5}}, "64": {"p": {"w": 1.0}}}
    assert results.CASES["policies"]({"speeds": speeds}) == {"p": {"speeds": {"16": {"w": 0.5}, "64": {"w": 1.0}}}}
    kernel = {"name": "k", "calls": 1, "seconds": 1.0, "bound": 0.5, "limit": "FMA", "share": 0.5, "schedule": "default"}
    (found,) = results.CASES["kernels"]({"_run": 1, "net": [kernel]})["net"]["kernels"]
    assert found["bound"] == 0.5 and "schedule" not in found


def test_wrong_words_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in ((["--only", "nothing"], "there is no table 'nothing'"), (["--quick", "--only", "gpt2"], "no quick form")):
        with pytest.raises(SystemExit):
            figures.main(words)
        assert said in capsys.readouterr().err


def test_the_pages_are_written_in_the_end_and_only_of_what_can_be_published(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write("docs/make.py", "")
    (place.root / "docs" / "make").mkdir()
    place.write("docs/make/figures.py", f"open({str(place.root / 'called')!r}, 'a').write('x')")
    monkeypatch.setattr(figures, "TABLES", {"some": place.table()})
    monkeypatch.setattr(results, "RESULTS", place.file.parent)
    assert figures.main(["--quick", "--only", "some"]) == 0
    assert not (place.root / "called").exists() and (place.root / "build" / "some.json").exists() and not place.file.exists()
    assert figures.main(["--only", "some"]) == 0
    assert (place.root / "called").read_text() == "x" and json.loads(place.file.read_text())["table"] == "some"
