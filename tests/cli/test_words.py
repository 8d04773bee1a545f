"""One message in two ways: arguments and calls for callers in Python, options and commands at a command line."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from tests.cli.models import write_dense
from typer.testing import CliRunner

import tensorsmith as ts
from tensorsmith.cli import app
from tensorsmith.cli.words import told, words
from tensorsmith.errors import COMPILE, TUNE, Action, Parameter, UserError
from tensorsmith.frontends.onnx.table import NeedsConstant
from tensorsmith.records import Store
from tensorsmith.records.faults import StoreError
from tensorsmith.report import collect
from tensorsmith.runtime import file as executable_file


@pytest.mark.parametrize(
    ("said", "python", "command"),
    [
        (Parameter("trials"), "trials", "--trials"),
        (Parameter("seconds", "600"), "seconds=600", "--time 600"),
        (Parameter("database", "'tune.db'"), "database='tune.db'", "--db 'tune.db'"),
        (Parameter("shapes", entries=(("n", "N"), ("x", "(N, 4)"))), 'shapes={"n": N, "x": (N, 4)}', "--shape n=N --shape x=N,4"),
        (Parameter("shapes", entries=(("x", "(3,)"),)), 'shapes={"x": (3,)}', "--shape x=3,"),
        (Parameter("shapes", entries=(("n", "[1, 8]"),)), 'shapes={"n": [1, 8]}', "--shape n=1,8"),
        (
            Parameter("shapes", entries=(("n", "None"), ("x", "(None, 3)"))),
            'shapes={"n": None, "x": (None, 3)}',
            "--shape n=? --shape x=?,3",
        ),
        (Parameter("constants", entries=(("n", "array"),)), 'constants={"n": array}', 'constants={"n": array} in Python'),
        (TUNE, "`ts.tune(..., database=...)`", "`tensorsmith tune`"),
        (COMPILE, "`ts.compile(model).save(path)`", "`tensorsmith compile`"),
        (Action("records {} recover NEW", "recover({})", ("a b",)), "`recover('a b')`", "`tensorsmith records 'a b' recover NEW`"),
    ],
)
def test_words(said: Parameter | Action, python: str, command: str) -> None:
    assert (str(said), words(said)) == (python, command)


def test_a_message_is_text_wherever_it_goes() -> None:
    problem = UserError(Parameter("trials"), " is -1; or ", TUNE)
    assert repr(problem) == "UserError('trials is -1; or `ts.tune(..., database=...)`')"
    assert str(pickle.loads(pickle.dumps(problem))) == str(problem) and told(problem) == "--trials is -1; or `tensorsmith tune`"
    assert str(UserError("plain")) == told(UserError("plain")) == "plain" and told(ValueError("other")) == "other"


def caught(act: Callable[[], object]) -> UserError:
    with pytest.raises(UserError) as problem:
        act()
    return problem.value


def failed(*arguments: object) -> UserError:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert isinstance(result.exception, UserError), (result.output, result.exception)
    return result.exception


def test_open_dimensions(tmp_path: Path) -> None:
    model = write_dense(tmp_path / "open.onnx", ("rows", 8))
    problem = caught(lambda: ts.load(model))
    assert str(problem) == 'these dimensions are open: input x [rows, 8]: rows. Bind them: shapes={"rows": N}'
    assert told(problem) == "these dimensions are open: input x [rows, 8]: rows. Bind them: --shape rows=N"
    problem = caught(lambda: ts.load(model, shapes={"cols": 3}))
    assert str(problem).startswith("shapes={\"cols\": 3}: 'cols' is not a dimension of the model")
    assert told(failed("tasks", model, "--shape", "cols=3")).startswith("--shape cols=3: 'cols' is not a dimension of the model")
    assert told(failed("tasks", model, "--shape", "cols=3x4")).startswith("--shape cols=3,4: 'cols' is not an input of the model")


@pytest.mark.parametrize(
    ("argument", "option", "python", "command"),
    [
        ({"trials": -3}, ["--trials", "-3"], "trials is -3; give", "--trials is -3; give"),
        ({"patience": -3}, ["--patience", "-3"], "patience is -3; give", "--patience is -3; give"),
        ({"seed": -3}, ["--seed", "-3"], "seed is -3; give", "--seed is -3; give"),
        ({"effort": "hard"}, ["--effort", "hard"], "effort: there is no effort 'hard'", "--effort: there is no effort 'hard'"),
    ],
)
def test_the_options_of_a_run(argument: dict, option: list[str], python: str, command: str) -> None:
    workload = ts.ops.catalogue.get("GMM-small").workload()
    assert str(caught(lambda: ts.tune(workload, **argument))).startswith(python)
    assert told(failed("tune", "GMM-small", *option)).startswith(command)


@pytest.mark.parametrize(("option", "python"), [("--policy", "policy"), ("--model", "model")])
def test_a_plug_in_that_is_none(option: str, python: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("thing = 3\n")
    place = f"{tmp_path / 'mine.py'}:thing"
    workload = ts.ops.catalogue.get("GMM-small").workload()
    assert str(caught(lambda: ts.tune(workload, **{python: place}))).startswith(f"{python} is {place!r}, ")
    assert told(failed("tune", "GMM-small", option, place)).startswith(f"{option} is {place!r}, ")


def test_seconds() -> None:
    problem = caught(lambda: ts.tune(ts.ops.catalogue.get("GMM-small").workload(), seconds=-1))
    assert str(problem).startswith("seconds is -1; give") and told(problem).startswith("--time is -1; give")


def test_an_input_that_must_be_a_constant(tmp_path: Path) -> None:
    text = '<ir_version: 9, opset_import: ["" : 17]> g (float[4] x, int64[1] n) => (float[m] y) { y = Expand(x, n) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    problem = caught(lambda: ts.load(tmp_path / "m.onnx"))
    assert isinstance(problem, NeedsConstant) and problem.sources == ("n",)
    assert str(problem).endswith('it is computed from n: give that as a constant, constants={"n": array}')
    assert told(problem).endswith('give that as a constant, constants={"n": array} in Python')


def test_a_file_that_is_no_executable(tmp_path: Path) -> None:
    (tmp_path / "x.tsm").write_text("no executable")
    problem = caught(lambda: ts.load_executable(tmp_path / "x.tsm"))
    assert str(problem).endswith("is no executable of Tensorsmith; `ts.compile(model).save(path)` writes one")
    assert told(failed("run", tmp_path / "x.tsm")).endswith("is no executable of Tensorsmith; `tensorsmith compile` writes one")


def test_an_executable_that_is_damaged_or_of_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ts.load(write_dense(tmp_path / "dense.onnx"))
    ts.compile(model).save(tmp_path / "x.tsm")
    whole = (tmp_path / "x.tsm").read_bytes()
    (tmp_path / "damaged.tsm").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    problem = caught(lambda: ts.load_executable(tmp_path / "damaged.tsm"))
    assert str(problem).endswith("make it again with `ts.compile(model).save(path)`")
    assert told(problem).endswith("make it again with `tensorsmith compile`")
    monkeypatch.setattr(executable_file, "VERSION", executable_file.VERSION + 1)
    problem = caught(lambda: ts.load_executable(tmp_path / "x.tsm"))
    assert str(problem).endswith("make it again with `ts.compile(model).save(path)`")
    assert told(problem).endswith("make it again with `tensorsmith compile`")


def test_a_damaged_record_file(tmp_path: Path) -> None:
    path = tmp_path / "tune.db"
    path.write_bytes(b"SQLite format 3\0" + bytes(5000))
    problem = caught(lambda: Store.open(path))
    assert str(problem).endswith(f"is saved by: `tensorsmith.records.recover({str(path)!r}, new_path)`")
    assert told(failed("records", path)).endswith(f"is saved by: `tensorsmith records {path} recover NEW_FILE`")
    again = pickle.loads(pickle.dumps(problem))
    assert isinstance(problem, StoreError) and (again.kind, str(again)) == (problem.kind, str(problem))


def test_a_record_file_without_records(tmp_path: Path) -> None:
    with Store.open(tmp_path / "tune.db") as store:
        problem = caught(lambda: collect.of_records(store))
    assert str(problem).endswith("holds no records yet; `ts.tune(..., database=...)` adds them")
    assert told(failed("report", tmp_path / "tune.db", "--json")).endswith("holds no records yet; `tensorsmith tune` adds them")


def test_a_message_within_a_message_keeps_its_words(tmp_path: Path) -> None:
    with Store.open(tmp_path / "tune.db"):
        pass
    problem = failed("records", tmp_path / "tune.db", "best", "nothing.py")
    assert told(problem).endswith("has a key that begins with 'nothing.py'; there is no file nothing.py")


def test_no_library_speaks_of_options() -> None:
    """What is raised below the command line names no option of it."""
    source = Path(ts.__file__).parent
    for path in source.rglob("*.py"):
        if "cli" in path.relative_to(source).parts:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            wrong = "Error(" in line and ('"--' in line or " --" in line or "`tensorsmith " in line)
            assert not wrong, f"{path}:{number}: {line.strip()}"
