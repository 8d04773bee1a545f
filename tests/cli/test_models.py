"""Commands on models: tasks, sketches, compile, run, bench."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from tests.cli.models import write_dense, write_lookup, write_wide
from typer.testing import CliRunner, Result

import tensorsmith as ts
from tensorsmith.cli import app
from tensorsmith.cli.words import told
from tensorsmith.errors import UserError
from tensorsmith.records import Store, Timing
from tensorsmith.search.trial import Status, Trial
from tensorsmith.space.plain import plain_candidate
from tensorsmith.targets.target import native


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def ran(*arguments: object) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


@pytest.fixture
def dense(tmp_path: Path) -> str:
    return write_dense(tmp_path / "dense.onnx")


@pytest.fixture
def records(dense: str, tmp_path: Path) -> str:
    """A record file with one record, of the first task: 2 microseconds."""
    workload = ts.load(dense).tasks()[0].workload
    target = native()
    with Store.open(tmp_path / "tune.db") as store:
        trial = Trial(plain_candidate(workload), Status.OK, 2e-6)
        store.add(workload, target, Timing("warm", target.cores), [trial])
    return str(tmp_path / "tune.db")


# -- tasks and sketches ------------------------------------------------------------------------------------------------


def test_tasks(dense: str) -> None:
    out = ran("tasks", dense)
    tasks = ts.load(dense).tasks()
    assert "matmul" in out and "4x8, 8x16 -> 4x16" in out and "share of FLOPs" in out
    assert f"dense: {len(tasks)} tasks" in out
    assert "best record" not in out and "share of time" not in out


def test_tasks_with_records_and_a_profile(dense: str, records: str) -> None:
    out = ran("tasks", dense, "--db", records, "--profile")
    first = next(line for line in out.splitlines() if "matmul" in line)
    assert "2.0 us" in first and "record" in first
    assert "share of time" in out


def test_the_flops_of_a_task(dense: str, records: str) -> None:
    """2 * 4 * 8 * 16 for the matmul, 64 for its ReLU, in 2 microseconds."""
    out = ran("tasks", dense, "--db", records)
    assert " 0.5 " in next(line for line in out.splitlines() if "matmul" in line)


def test_sketches_of_a_task(dense: str) -> None:
    out = ran("sketches", dense, "--task", 0, "--rules", "ansor")
    assert "--- sketch 0 of" in out
    assert str(ts.load(dense).tasks()[0].workload) in out


# -- compile and run ---------------------------------------------------------------------------------------------------


def test_compile_then_run_gives_what_the_model_means(dense: str, tmp_path: Path) -> None:
    x = np.random.default_rng(2).standard_normal((4, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    assert "kernels" in ran("compile", dense, "-o", tmp_path / "dense.tsm")
    out = ran("run", tmp_path / "dense.tsm", "--input", f"x={tmp_path / 'x.npy'}", "--output", tmp_path / "out.npz")
    want = ts.load(dense).evaluate({"x": x})
    with np.load(tmp_path / "out.npz") as found:
        assert sorted(found.files) == ["sum", "y"]
        for name, array in want.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5)
        assert f"{found['y'].max():.6g}" in out
    assert "4x16" in out and "float32" in out


def test_compile_says_which_kernels_have_records(dense: str, records: str, tmp_path: Path) -> None:
    assert "1 with a record" in ran("compile", dense, "--db", records, "-o", tmp_path / "dense.tsm")
    assert "with a record" not in ran("compile", dense, "-o", tmp_path / "dense.tsm")


def test_compile_lets_the_model_choose_if_it_is_asked(dense: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which takes the last of its proposals here, whatever it is."""
    monkeypatch.setattr("tensorsmith.predicted.Judged.best", lambda self, margin: self.candidates[-1])
    out = ran("compile", dense, "--effort", "model", "-o", tmp_path / "dense.tsm")
    assert "chosen by the model" in out
    assert "chosen by the model" not in ran("compile", dense, "-o", tmp_path / "dense.tsm")
    problem = invoke("compile", dense, "--effort", "quick").exception
    assert isinstance(problem, UserError) and "--effort: there is no effort 'quick' without a search" in told(problem)


@pytest.mark.parametrize("command", ["compile", "export"])
def test_weights_in_fewer_bits(command: str, tmp_path: Path) -> None:
    wide, option = write_wide(tmp_path / "wide.onnx"), "--weights" if command == "compile" else "--weights-as"
    out = ran(command, wide, option, "int8", "-o", tmp_path / "made")
    assert "weights as int8: 5.7 KiB of constants, not 21.9 KiB" in out and "y is off by" in out
    found = json.loads(ran(command, wide, option, "bf16", "-o", tmp_path / "made", "--json"))["weights"]
    assert found["bytes_before"] == 4 * 80 * 70 and found["bytes_after"] == 2 * 80 * 70
    assert found["weights"] == "bf16" and 0 < found["outputs"][0]["share"] < 0.01
    result = invoke(command, wide, option, "int3", "-o", tmp_path / "made")
    assert isinstance(result.exception, UserError) and "weights is 'int3'" in str(result.exception)


def test_bf16_in_files(tmp_path: Path) -> None:
    """NumPy writes them as two bytes without a name."""
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.BFLOAT16, (3,)) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Add", ["x", "x"], ["y"])], "twice", ends[:1], ends[1:])
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9), tmp_path / "twice.onnx"
    )
    np.save(tmp_path / "x.npy", np.array([1, 2.5, -3]).astype(ml_dtypes.bfloat16))
    ran("run", tmp_path / "twice.onnx", "--input", f"x={tmp_path / 'x.npy'}", "--output", tmp_path / "y.npy")
    assert np.load(tmp_path / "y.npy").view(ml_dtypes.bfloat16).astype(float).tolist() == [2, 5, -6]


def test_compile_names_the_file_after_the_model(dense: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert ran("compile", dense).startswith("dense.tsm: dense, ")
    assert (tmp_path / "dense.tsm").exists()


def test_a_model_runs_without_being_compiled_first(tmp_path: Path) -> None:
    model = write_lookup(tmp_path / "lookup.onnx")
    np.savez(tmp_path / "in.npz", ids=np.array([0, 1, 1, 0, 1]), offset=np.ones((5, 3), np.float32))
    ran("run", model, "--input", tmp_path / "in.npz", "--output", tmp_path / "y.npy")
    want = np.arange(6).reshape(2, 3)[[0, 1, 1, 0, 1]] + 1
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), want)


def test_random_inputs_depend_on_the_seed_alone(dense: str, tmp_path: Path) -> None:
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        ran("run", dense, "--seed", seed, "--output", f"y={tmp_path / name}.npy")
    a, b, c = (np.load(tmp_path / f"{name}.npy") for name in "abc")
    assert np.array_equal(a, b) and not np.array_equal(a, c)


def test_a_trace_is_written_beside_the_outputs(dense: str, tmp_path: Path) -> None:
    out = ran("run", dense, "--trace", tmp_path / "t.json", "--threads", 1)
    assert f"{tmp_path / 't.json'} written" in out
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert {e["cat"] for e in events if e["ph"] == "X"} >= {"step"}


@pytest.mark.parametrize("shape", [("x=4x8",), ("x=4,8",), ("rows=4",)])
def test_open_dimensions_are_bound(tmp_path: Path, shape: tuple[str, ...]) -> None:
    model = write_dense(tmp_path / "open.onnx", ("rows", 8))
    options = [part for s in shape for part in ("--shape", s)]
    assert "4x16" in ran("run", model, *options)
    assert "4x8, 8x16 -> 4x16" in ran("tasks", model, *options)


# -- bench -------------------------------------------------------------------------------------------------------------


def test_bench_compares_with_onnx_runtime(dense: str, records: str) -> None:
    out = ran("bench", dense, "--db", records, "--seconds", 0, "--profile")
    assert "tensorsmith" in out and "onnxruntime" in out and "WRONG" not in out
    assert "1 with a record" in out
    assert "kernel  " in out  # the profile's head


def test_bench_of_an_executable_needs_the_model_for_others(dense: str, tmp_path: Path) -> None:
    ran("compile", dense, "-o", tmp_path / "dense.tsm")
    assert "without others: give --model MODEL.onnx" in ran("bench", tmp_path / "dense.tsm", "--seconds", 0)
    assert "without others" not in ran("bench", tmp_path / "dense.tsm", "--seconds", 0, "--vs", "")
    assert "│ onnxruntime" in ran("bench", tmp_path / "dense.tsm", "--seconds", 0, "--model", dense)


def test_bench_leaves_out_what_is_not_installed(dense: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)  # importing it now fails
    out = ran("bench", dense, "--vs", "openvino", "--seconds", 0)
    assert "openvino is left out: openvino is not installed (pip install openvino)" in out
    assert "tensorsmith" in out


def test_bench_exits_with_1_if_outputs_differ(dense: str, tmp_path: Path) -> None:
    ran("compile", dense, "-o", tmp_path / "dense.tsm")
    other = tmp_path / "other.onnx"
    model = onnx.load(dense)
    model.graph.node[1].op_type = "Neg"
    onnx.save(model, other)
    result = invoke("bench", tmp_path / "dense.tsm", "--model", other, "--seconds", 0)
    assert result.exit_code == 1 and "WRONG" in result.output


# -- mistakes ----------------------------------------------------------------------------------------------------------


def mistake(*arguments: object) -> str:
    result = invoke(*arguments)
    assert isinstance(result.exception, UserError), (result.output, result.exception)
    return told(result.exception)


@pytest.mark.parametrize("command", ["tasks", "compile", "run", "bench", "tune", "sketches"])
def test_a_file_that_is_missing_or_no_model(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert mistake(command, "nothing.onnx") == "there is no file nothing.onnx"
    (tmp_path / "text.onnx").write_text("no model")
    assert "text.onnx: not an ONNX file" in mistake(command, "text.onnx")


@pytest.mark.parametrize("command", ["tasks", "compile", "run", "bench", "tune", "sketches"])
def test_dimensions_that_stay_open(command: str, tmp_path: Path) -> None:
    model = write_dense(tmp_path / "open.onnx", ("rows", 8))
    assert "input x [rows, 8]: rows. Bind them: --shape rows=N" in mistake(command, model)
    assert "'cols' is not a dimension of the model" in mistake(command, model, "--shape", "cols=3")
    assert "--shape rows: write input=1x3x224x224, dimension=1, dimension=? or" in mistake(command, model, "--shape", "rows")


def test_operators_that_are_not_supported(dense: str, tmp_path: Path) -> None:
    model = onnx.load(dense)
    model.graph.node[1].op_type = "Reluu"
    onnx.save(model, tmp_path / "odd.onnx")
    assert "dense uses operators that are not supported: Reluu (opset 17) x1" in mistake("compile", tmp_path / "odd.onnx")


@pytest.mark.parametrize("command", ["tasks", "compile", "run", "bench"])
def test_a_record_file_that_is_missing(command: str, dense: str, tmp_path: Path) -> None:
    assert "there is no record file" in mistake(command, dense, "--db", tmp_path / "no.db")


@pytest.mark.parametrize(
    ("array", "given", "message"),
    [
        (np.zeros((4, 8)), "x={}", "input x must be float32[4, 8], this is float64[4, 8]"),
        (np.zeros((4, 9), np.float32), "x={}", "input x must be float32[4, 8], this is float32[4, 9]"),
        (np.zeros((4, 8), np.float32), "z={}", "dense has no input 'z'; its inputs are x"),
        (np.zeros((4, 9), np.float32), "{}", "input x must be float32[4, 8], this is float32[4, 9]"),
        (np.array([{}]), "x={}", "is no array of NumPy (.npy or .npz), or holds Python objects"),
    ],
)
def test_wrong_inputs(dense: str, tmp_path: Path, array: np.ndarray, given: str, message: str) -> None:
    np.save(tmp_path / "a.npy", array)
    assert message in mistake("run", dense, "--input", given.format(tmp_path / "a.npy"))


def test_inputs_missing_or_twice(tmp_path: Path) -> None:
    model = write_lookup(tmp_path / "lookup.onnx")
    np.save(tmp_path / "ids.npy", np.zeros(5, np.int64))
    ids = f"ids={tmp_path / 'ids.npy'}"
    assert "input offset is missing; give --input offset=FILE.npy, a offset: f32[5, 3]" in mistake("run", model, "--input", ids)
    assert "input ids is given twice" in mistake("run", model, "--input", ids, "--input", ids)
    assert "there is no file none.npy" in mistake("run", model, "--input", "ids=none.npy")
    assert "write NAME=FILE.npy, or FILE.npz" in mistake("run", model, "--input", tmp_path / "ids.npy")
    (tmp_path / "text.npy").write_text("no array")
    assert "is no array of NumPy" in mistake("run", model, "--input", f"ids={tmp_path / 'text.npy'}")


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("z=z.npy", "there is no output 'z'; there are y, sum"),
        ("y.npy", "write NAME=FILE.npy, or FILE.npz for all outputs"),
        ("y=y.txt", "write NAME=FILE.npy, or FILE.npz for all outputs"),
        ("y=no/folder/y.npy", "there is no folder no/folder"),
    ],
)
def test_wrong_outputs(dense: str, output: str, message: str) -> None:
    assert message in mistake("run", dense, "--output", output)


def test_options_that_an_executable_cannot_obey(dense: str, tmp_path: Path) -> None:
    file = tmp_path / "dense.tsm"
    ran("compile", dense, "-o", file)
    assert "is compiled: --db is for models" in mistake("run", file, "--db", "tune.db")
    assert "is compiled: --shape is for models" in mistake("bench", file, "--shape", "x=4x8")
    assert "is compiled already; give the model it was made of" in mistake("tune", file)
    assert "is no model: expected a file that ends in .onnx" in mistake("compile", file)
    assert "is neither a model (.onnx) nor an executable (.tsm)" in mistake("run", "GMM-1-b1")
    file.write_bytes(file.read_bytes()[:1000])
    assert "damaged or cut short" in mistake("run", file)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bench", "{}", "--vs", "tvm"], "'tvm' is not known; there are onnxruntime, torch, openvino"),
        (["sketches", "{}"], "choose one with --task"),
        (["sketches", "{}", "--task", "99"], "there is no 99"),
        (["sketches", "GMM-1-b1", "--task", "0"], "only a model has tasks"),
        (["sketches", "GMM-1-b1", "--shape", "x=1,"], "only the shapes of a model can be given"),
        (["compile", "{}", "-o", "no/folder/m.tsm"], "there is no folder no/folder"),
        (["tune", "GMM-1-b1", "-o", "m.tsm"], "only a model can be written"),
        (["tune", "{}", "-o", "no/folder/m.tsm"], "there is no folder no/folder"),
        (["tune", "{}", "--shape", "x=4x8", "--shape", "x=4x8"], "x is given twice"),
    ],
)
def test_other_mistakes(dense: str, arguments: list[str], message: str) -> None:
    assert message in mistake(*(a.format(dense) for a in arguments))


def test_a_mistake_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    model = write_dense(tmp_path / "open.onnx", ("rows", 8))
    command = [sys.executable, "-c", "from tensorsmith.cli import main; main()", "compile", model]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("tensorsmith: these dimensions are open") and done.stderr.count("\n") == 1
    assert done.stderr.endswith("Bind them: --shape rows=N\n")


# -- help --------------------------------------------------------------------------------------------------------------

OPTIONS = {
    "tasks": ("--db", "--shape", "--profile"),
    "sketches": ("--task", "--rules", "--only", "--shape"),
    "compile": ("--output", "-o", "--db", "--shape"),
    "run": ("--input", "--output", "--db", "--shape", "--seed"),
    "bench": ("--db", "--vs", "--model", "--profile", "--seconds", "--input", "--shape"),
    "demo": ("--seconds",),
}


@pytest.mark.parametrize("command", OPTIONS)
def test_help_names_every_option(command: str) -> None:
    out = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"}).output
    assert all(option in out for option in OPTIONS[command])


def test_help_names_every_command() -> None:
    out = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200", "NO_COLOR": "1"}).output
    assert all(command in out for command in (*OPTIONS, "tune", "records", "doctor"))


def test_compile_for_another_machine(dense: str, tmp_path: Path) -> None:
    ran("compile", dense, "-o", tmp_path / "arm.tsm", "--target", "cortex-a72")
    result = invoke("run", tmp_path / "arm.tsm")
    assert isinstance(result.exception, UserError) and "was compiled for cortex-a72" in str(result.exception)
    result = invoke("compile", dense, "-o", tmp_path / "x.tsm", "--target", "cortex-a7")
    assert isinstance(result.exception, UserError) and "did you mean 'cortex-a76'" in str(result.exception)


def test_threads(tmp_path: Path) -> None:
    """`--threads` reaches what is compiled, what runs, and what is said of it."""
    model, file = write_dense(tmp_path / "dense.onnx"), str(tmp_path / "dense.tsm")
    assert CliRunner().invoke(app, ["compile", model, "--threads", "1", "-o", file]).exit_code == 0
    assert ts.load_executable(file).threads == 1
    for arguments, threads in (([], 1), (["--threads", "2"], 2)):
        result = CliRunner().invoke(app, ["bench", file, "--vs", "", "--seconds", "0", "--json", *arguments])
        assert json.loads(result.stdout)["threads"] == threads
    result = CliRunner().invoke(app, ["bench", model, "--vs", "", "--seconds", "0", "--threads", "1"])
    assert "; 1 thread\n" in result.output
    assert CliRunner().invoke(app, ["run", file, "--threads", "2"]).exit_code == 0
    for command in (["run", file], ["bench", file, "--vs", ""], ["compile", model], ["tune", model]):
        problem = CliRunner().invoke(app, [*command, "--threads", "0"]).exception
        assert isinstance(problem, UserError) and told(problem) == "--threads is 0; give a whole number, 1 to 4096"
