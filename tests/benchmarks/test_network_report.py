"""Whole networks: figures, tables and the command line, without running one."""

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import network_memory
import network_report
from network_contest import difference
from ours_networks import Search
from rows import OURS, UNTUNED
from tensorsmith.runtime.profile import Profile, StepTime
from tensorsmith.tune import NetworkProgress

# -- answers -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("got", "want", "expected"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 2.5], [1.0, 2.0], 0.25),
        ([-4.5, 0.0], [-4.0, 0.0], 0.125),
        ([0.5], [0.0], 0.5),
        ([], [], 0.0),
        ([1.0, np.nan], [1.0, 2.0], np.inf),
        ([1.0, np.nan], [1.0, np.nan], 0.0),
        ([1.0, np.inf], [1.0, -np.inf], np.inf),
        ([1.0], [1.0, 1.0], np.inf),
    ],
)
def test_difference_is_relative_to_the_largest(got, want, expected):
    assert difference([np.array(got, np.float32)], [np.array(want, np.float32)]) == pytest.approx(expected)


def test_difference_is_the_worst_output():
    small, large = np.float32([1e-3]), np.float32([1e3])
    assert difference([small * 1.5, large], [small, large]) == pytest.approx(0.5)
    assert difference([large], [small, large]) == np.inf


def test_integers_do_not_wrap_around():
    assert difference([np.uint8([0])], [np.uint8([255])]) == pytest.approx(1.0)


def progress(trials: int, elapsed: float, latency: float, first: float) -> NetworkProgress:
    return NetworkProgress(("tiny",), (latency,), (first,), 1, 3, "conv", trials, 64, elapsed)


def test_the_curve_has_default_times_of_what_is_not_measured_yet_and_a_point_for_each_change():
    search = Search()
    assert search.curve == []
    for step in [(0, 0.1, 0.0, 0.0), (4, 0.5, 2e-3, 2e-3), (8, 1.0, 5e-3, 6e-3), (16, 2.0, 5e-3, 6e-3), (24, 3.0, 4e-3, 7e-3)]:
        search.note(progress(*step))
    assert search.trials == 24
    assert [point for point, _ in search.curve] == [0.1, 1.0, 3.0]
    assert [latency for _, latency in search.curve] == pytest.approx([7e-3, 6e-3, 4e-3])


# -- tables and pictures -------------------------------------------------------------------------------------------------

ROWS = {
    "a": {
        "ratio_to_best_peer": 2.0,
        "best_peer": "torch last",
        "seconds": {OURS: 1e-3, UNTUNED: 4e-3, "torch": 3e-3, "torch last": 2e-3, "openvino": 2.5e-3},
        "untuned_ratio_to_best_peer": 0.5,
        "tuned_to_untuned": 4.0,
        "ratio_quartiles": [1.9, 2.1],
        "trials": 64,
        "seconds_searching": 2.0,
        "curve": [(0.0, 5e-3), (1.0, 1.2e-3)],
        "difference": {OURS: 2e-6, "torch": 1e-6},
        "memory": {OURS: {"network": 2**20, "library": 2**22}, "onnxruntime": {"network": 2**21, "library": 2**20}},
    },
    "b": {"error": "UserError: cannot", "seconds": {"torch": 7e-3}, "best_peer": "torch", "trials": 0},
    "c": {
        "ratio_to_best_peer": 8.0,
        "best_peer": "openvino",
        "seconds": {OURS: 1e-3, "openvino": 8e-3},
        "untuned_ratio_to_best_peer": 8.0,
        "same_program": True,
        "tuned_to_untuned": 1.0,
        "trials": 0,
    },
    "d": {
        "ratio_to_best_peer": 3.0,
        "best_peer": "openvino",
        "seconds": {OURS: 1e-3, "openvino": 3e-3},
        "untuned_ratio_to_best_peer": 3.0,
        "same_program": True,
        "tuned_to_untuned": 1.0,
        "trials": 64,
        "seconds_searching": 2.0,
    },
}


def text(table: object) -> list[list[str]]:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(table)
    lines = console.export_text().splitlines()
    return [[cell.strip() for cell in line.strip("│┃").replace("┃", "│").split("│")] for line in lines if line[:1] in "│┃"]


def test_the_table_has_each_framework_in_its_best_form():
    heading, a, b, c, d = text(network_report.times_table("networks", ROWS, ("torch", "openvino")))
    columns = heading.index
    assert [a[columns(name)] for name in ("untuned", "tuned", "torch", "openvino")] == ["4.000", "1.000", "2.000", "2.500"]
    assert a[columns("difference")] == "2e-06"
    assert (b[columns("tuned")], b[columns("torch")]) == ("", "7.000")
    assert (c[columns("untuned")], c[columns("tuned")]) == ("1.000", "")
    assert (d[columns("untuned")], d[columns("tuned")]) == ("default", "1.000")


def test_ratios_of_default_schedules_are_not_called_tuned():
    _, a, b, c, d = text(network_report.ratios_table("ratios", ROWS))
    assert a == ["a", "torch last", "2.000", "", "1.90-2.10", "0.500", "4.000", "", "64", "2"]
    assert b == ["b", "torch", *[""] * 8]
    assert c == ["c", "openvino", "", "", "", "8.000", "", "", "", ""]
    assert d == ["d", "openvino", "3.000", "", "", "default", "", "", "64", "2"]


def ratios(tuned: float, untuned: float, reference: float) -> dict[str, object]:
    return {
        "ratio_to_best_peer": tuned,
        "untuned_ratio_to_best_peer": untuned,
        "tuned_to_untuned": tuned / untuned,
        "untuned_ratio_to_onnxruntime": reference,
        "seconds": {OURS: 1.0, UNTUNED: 1.0},
    }


def test_the_verdict():
    rows = {
        "resnet50-b1": ratios(2.0, 1.0, 1.1),
        "dcgan-b1": ratios(0.5, 0.25, 0.5),
        "minilm-b1": ratios(1.0, 2.0, 0.75),
    }
    mean, behind = "times the best peer (geometric mean of", "behind: 1 (dcgan-b1"
    assert network_report.verdict(rows).splitlines() == [
        f"tuned, the paper's networks: 1.000 {mean} 2), 0.500 without its best row (resnet50-b1 2.00); {behind} 0.500)",
        f"tuned, all networks: 1.000 {mean} 3), 0.707 without its best row (resnet50-b1 2.00); {behind} 0.500)",
        f"untuned, the paper's networks: 0.500 {mean} 2), 0.250 without its best row (resnet50-b1 1.00); {behind} 0.250)",
        f"untuned, all networks: 0.794 {mean} 3), 0.500 without its best row (minilm-b1 2.00); {behind} 0.250)",
        "tuned to untuned: geometric mean 1.260",
        "slower than 0.97 of untuned: 1 (minilm-b1 0.500)",
        "untuned against onnxruntime: all within 2x; the slowest 0.500x (dcgan-b1)",
    ]
    rows["dcgan-b1"]["untuned_ratio_to_onnxruntime"] = 0.49
    assert network_report.verdict(rows).endswith("not within 2x: dcgan-b1; the slowest 0.490x (dcgan-b1)")
    rows["dcgan-b1"]["disturbed"] = 0.9
    assert network_report.verdict(rows).endswith("not to be believed (!): dcgan-b1")


def test_the_verdict_takes_tuned_figures_from_tuned_networks_and_names_errors():
    lines = network_report.verdict(ROWS).splitlines()
    assert lines[0].startswith("tuned, all networks: 2.449 times the best peer (geometric mean of 2)")
    assert lines[1].startswith("untuned, all networks: 2.289 times the best peer (geometric mean of 3)")
    assert lines[2] == "tuned to untuned: geometric mean 2.000; the default schedule itself is what runs in 1 of 2"
    assert lines[-1] == "with errors: b"


def test_a_profile_is_cut_to_the_costliest():
    steps = [StepTime(n, f"k{n}", "f32[2, 3]", (4 - n) * 1e-3, 10**6, "default") for n in range(4)]
    _, first, second, others = text(network_report.profile_table("p", Profile("p", tuple(steps)), 1e9, 2))
    assert first == ["k0", "f32[2, 3]", "1", "4,000.0", "40.0%", "0.2", "25.0%", "default"]
    assert second[0] == "k1"
    assert others[:5] == ["2 others", "", "2", "3,000.0", "30.0%"]
    assert len(text(network_report.profile_table("p", Profile("p", tuple(steps)), None))) == 1 + len(steps)


def test_memory_table():
    _, a, b, *_ = text(network_report.memory_table(ROWS))
    assert a == ["a", "1.0", "2.0", "0.50", "4.0", "1.0"]
    assert b[1:] == [""] * 5


@pytest.mark.peers  # it needs what only they need, matplotlib
def test_plot(tmp_path):
    file = tmp_path / "curves.svg"
    network_report.plot(file, ROWS, ("torch", "openvino"))
    assert file.read_text().startswith("<?xml")
    with pytest.raises(SystemExit, match="nothing to draw"):
        network_report.plot(file, {"b": ROWS["b"]}, ("torch",))


def test_peak_increase_sees_what_is_gone_again():
    """In a process of its own: what other tests left behind may be freed meanwhile. The kernel counts pages in batches."""
    size = 64 << 20
    code = f"import numpy as np, network_memory as m; print(m.peak_increase(lambda: np.ones({size}, np.uint8).sum()))"
    folder = Path(network_memory.__file__).parent
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    assert 0.9 * size <= int(done.stdout) < 2 * size


# -- the command line ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--models resnet51 --untuned", "there is no network 'resnet51'; there are resnet50"),
        ("--models dcgan --untuned --peers tvm", "there is no peer 'tvm'"),
        ("--models dcgan", "say how long to search"),
        ("--models dcgan --untuned --trials 4", "--untuned searches nothing"),
        ("--models dcgan --trials 0", "give it with --db"),
        ("--models dcgan --untuned --batch 0", "--batch is 1 or more"),
        ("--models dcgan --seconds -1", "--seconds is 0 or more, -1.0 given"),
        ("--models dcgan --untuned --plot curves.png", "--plot draws the tuning curves"),
    ],
)
def test_bad_arguments_fail_at_once(script, capsys, words, message):
    with pytest.raises(SystemExit):
        script.arguments(words.split())
    assert message in capsys.readouterr().err


def test_models(script):
    assert script.arguments(["--untuned"]).models == script.models.PAPER
    assert script.arguments(["--models", "all", "--trials", "4"]).models == tuple(script.models.MODELS)
    assert script.arguments(["--models", "none", "--overhead"]).models == ()
