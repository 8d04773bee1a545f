"""The benchmark of whole networks, on tiny ones: who takes part, what is right, and what is reported."""

import importlib.util
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from rich.console import Console

import network_contest
import network_report
import peers_networks
from contest import Settings
from models import Network
from network_contest import TOLERANCE, UNTUNED, Entry, difference
from network_memory import memory, peak_increase
from network_overhead import SIZE, chain, overhead
from ours_networks import Budget, Search, flops, load, schedules, tuned
from peers_networks import NetworkPeer, Unavailable, fixed_shapes, forms
from report import OURS, write_json
from tensorsmith.runtime.profile import Profile, StepTime
from tensorsmith.tune import NetworkProgress

pytestmark = pytest.mark.peers

SETTINGS = Settings(threads=2, seconds=0.0, frameworks=("torch", "onnxruntime"))


class Tiny(torch.nn.Module):
    """A convolution and what an image is made into after it, and another result."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.conv(x).relu()
        return y, y.mean((2, 3))


def build() -> torch.nn.Module:
    torch.manual_seed(0)
    return Tiny().eval()


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Network:
    path = tmp_path_factory.mktemp("networks") / "tiny.onnx"
    x = np.random.default_rng(0).standard_normal((1, 3, 9, 7)).astype(np.float32)
    axes = {"x": {0: "batch", 2: "height", 3: "width"}}
    with torch.no_grad():
        torch.onnx.export(build(), (torch.from_numpy(x),), str(path), input_names=["x"], dynamic_axes=axes, dynamo=False)
    return Network("tiny", path, {"x": x}, build)


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_contest, "BLOCK_SECONDS", 1e-4)
    monkeypatch.setattr(network_contest, "MIN_ROUNDS", 2)


def wanted(network: Network) -> list[np.ndarray]:
    with torch.inference_mode():
        return [y.numpy() for y in build()(torch.from_numpy(network.inputs["x"]))]


# -- peers ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("framework", "names"),
    [
        ("torch", ["torch", "torch last"]),
        ("onnxruntime", ["onnxruntime"]),
        ("openvino", ["openvino"]),
        pytest.param("inductor", ["inductor"], marks=pytest.mark.long),
    ],
)
def test_peers_give_all_outputs(network, framework, names):
    with torch.inference_mode():
        found = forms(framework, network, 2)
        assert [peer.name for peer in found] == names
        for peer in found:
            first = peer.outputs()
            assert difference(first, wanted(network)) < 1e-5
            peer.run()
            assert all(np.array_equal(a, b) for a, b in zip(first, peer.outputs()))


@pytest.mark.long
def test_weights_are_frozen_and_packed_by_torch_compile(network):
    from torch._dynamo.utils import counters

    counters.clear()
    with torch.inference_mode():
        forms("inductor", network, 2)
    assert counters["inductor"]["mkldnn_conv_weight_pack_matcher_count"] == 1


def test_shapes_are_fixed_for_everyone(network):
    def sizes(model: onnx.ModelProto) -> list[int]:
        return [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]

    assert sizes(onnx.load(str(network.path))) == [0, 3, 0, 0]
    assert sizes(onnx.load_from_string(fixed_shapes(network))) == [1, 3, 9, 7]


def test_why_a_peer_takes_no_part(network, tmp_path):
    with pytest.raises(Unavailable, match="comes as an ONNX file"):
        forms("torch", replace(network, module=None), 2)
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    with pytest.raises(Unavailable, match="DecodeError"):
        forms("onnxruntime", replace(network, path=broken), 2)


def test_what_is_not_installed_is_said(network, monkeypatch):
    monkeypatch.setitem(peers_networks.FRAMEWORKS, "openvino", "no_such_module")
    with pytest.raises(Unavailable, match="no_such_module is not installed"):
        forms("openvino", network, 2)


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


def test_a_wrong_answer_fails_the_row_and_is_not_timed(network):
    entry = Entry(network, SETTINGS)
    right = wanted(network)

    def broken() -> list[np.ndarray]:
        raise RuntimeError("out of order")

    contestants = [
        NetworkPeer("right", lambda: None, lambda: right),
        NetworkPeer("wrong", lambda: None, lambda: [right[0] * (1 + 2 * TOLERANCE), right[1]]),
        NetworkPeer("broken", lambda: None, broken),
    ]
    assert [one.name for one in entry.check(contestants)] == ["right"]
    assert entry.errors == ["wrong answer: wrong is off by 2.0e-03 of the largest output", "broken: RuntimeError: out of order"]


def test_without_onnxruntime_our_reference_decides(network, monkeypatch):
    monkeypatch.setitem(peers_networks.FRAMEWORKS, "onnxruntime", "no_such_module")
    entry = Entry(network, replace(SETTINGS, frameworks=("torch",)))
    with torch.inference_mode():
        assert [one.name for one in entry.check(entry.contestants())] == ["torch", "torch last"]
    assert not entry.errors
    assert "onnxruntime" in entry.notes


# -- rows ----------------------------------------------------------------------------------------------------------------


def test_a_row(network, tmp_path):
    entry = Entry(network, SETTINGS)
    entry.prepare(None)
    with torch.inference_mode():
        row = entry.measure()
    assert "error" not in row
    assert set(row["seconds"]) == set(row["median_seconds"]) == {OURS, "torch", "torch last", "onnxruntime"}
    assert row["best_peer"] in ("torch", "torch last", "onnxruntime")
    assert row["ratio_to_best_peer"] == pytest.approx(row["seconds"][row["best_peer"]] / row["seconds"][OURS])
    assert (row["trials"], row["seconds_searching"]) == (0, 0.0)
    assert row["untuned_ratio_to_best_peer"] == row["ratio_to_best_peer"]
    assert row["untuned_ratio_to_onnxruntime"] == pytest.approx(row["seconds"]["onnxruntime"] / row["seconds"][OURS])
    assert max(row["difference"].values()) < 1e-5
    assert entry.ours is not None
    assert row["share_of_peak"] == pytest.approx(flops(entry.ours) / row["seconds"][OURS] / row["peak_flops"])
    assert flops(entry.ours) >= 2 * 8 * 3 * 9 * 9 * 7
    assert sum(row["kernels"].values()) == sum(schedules(entry.ours).values()) > 0
    write_json(tmp_path / "out.json", {"tiny": row})
    assert json.loads((tmp_path / "out.json").read_text())["tiny"]["best_peer"] == row["best_peer"]


def test_untuned_is_no_peer_of_ours(network):
    entry = Entry(network, replace(SETTINGS, frameworks=("onnxruntime",)))
    entry.prepare(Budget(trials=0))
    with torch.inference_mode():
        row = entry.measure()
    assert row["best_peer"] == "onnxruntime"
    assert set(row["seconds"]) == {OURS, UNTUNED, "onnxruntime"}
    assert row["untuned_ratio_to_best_peer"] == pytest.approx(row["seconds"]["onnxruntime"] / row["seconds"][UNTUNED])
    assert row["untuned_ratio_to_onnxruntime"] == row["untuned_ratio_to_best_peer"]
    assert set(row["seconds_preparing"]) == {"onnxruntime"}


def test_the_profile_of_whatever_is_behind(network):
    entry = Entry(network, SETTINGS)
    entry.prepare(Budget(trials=0))

    def behind(**figures: float) -> list[str]:
        return [name for name, _ in entry.profiles(figures)]

    assert behind(ratio_to_best_peer=1.0, untuned_ratio_to_onnxruntime=0.5) == []
    assert behind(ratio_to_best_peer=0.99, untuned_ratio_to_onnxruntime=0.5) == [OURS]
    assert behind(ratio_to_best_peer=0.99, untuned_ratio_to_onnxruntime=0.49) == [OURS, UNTUNED]
    del entry.executables[UNTUNED]  # as with --untuned: ours are the default schedules
    assert behind(untuned_ratio_to_onnxruntime=0.49) == [OURS]
    (_, profile), *_ = entry.profiles({"ratio_to_best_peer": 0.5})
    assert profile.seconds > 0
    assert behind() == []


def test_what_we_cannot_do_leaves_the_peers(network):
    entry = Entry(network, replace(SETTINGS, frameworks=("onnxruntime", "openvino")))
    entry.prepare(None)
    entry.executables.clear()
    entry.errors.append("UserError: cannot")
    entry.network = replace(network, module=None)
    with torch.inference_mode():
        row = entry.measure()
    assert row["error"] == "UserError: cannot"
    assert "ratio_to_best_peer" not in row
    assert "onnxruntime" in row["seconds"]


def test_a_model_that_cannot_be_read_is_an_error_of_the_row(network, tmp_path):
    entry = Entry(replace(network, path=tmp_path / "missing.onnx"), replace(SETTINGS, frameworks=()))
    entry.prepare(None)
    assert len(entry.errors) == 1
    assert "missing.onnx" in entry.errors[0]


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


@pytest.mark.long
def test_tuning_is_noted(network, tmp_path):
    executable, search = tuned(load(network), Budget(trials=48, database=str(tmp_path / "tune.db")))
    assert search.trials == 48
    assert search.curve
    assert search.seconds > 0
    assert schedules(executable).get("record", 0) >= 1


# -- tables and pictures -------------------------------------------------------------------------------------------------

ROWS = {
    "a": {
        "ratio_to_best_peer": 2.0,
        "best_peer": "torch last",
        "seconds": {OURS: 1e-3, UNTUNED: 4e-3, "torch": 3e-3, "torch last": 2e-3, "openvino": 2.5e-3},
        "untuned_ratio_to_best_peer": 0.5,
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
        "trials": 0,
    },
}


def text(table: object) -> list[list[str]]:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(table)
    lines = console.export_text().splitlines()
    return [[cell.strip() for cell in line.strip("│┃").replace("┃", "│").split("│")] for line in lines if line[:1] in "│┃"]


def test_the_table_has_each_framework_in_its_best_form():
    heading, a, b, c = text(network_report.times_table("networks", ROWS, ("torch", "openvino")))
    columns = heading.index
    assert [a[columns(name)] for name in ("untuned", "tuned", "torch", "openvino")] == ["4.000", "1.000", "2.000", "2.500"]
    assert a[columns("difference")] == "2e-06"
    assert (b[columns("tuned")], b[columns("torch")]) == ("", "7.000")
    assert (c[columns("untuned")], c[columns("tuned")]) == ("1.000", "")


def test_ratios_of_default_schedules_are_not_called_tuned():
    _, a, b, c = text(network_report.ratios_table("ratios", ROWS))
    assert a == ["a", "torch last", "2.000", "", "0.500", "", "64", "2"]
    assert b == ["b", "torch", "", "", "", "", "", ""]
    assert c == ["c", "openvino", "", "", "8.000", "", "", ""]


def ratios(tuned: float, untuned: float, reference: float) -> dict[str, object]:
    return {
        "ratio_to_best_peer": tuned,
        "untuned_ratio_to_best_peer": untuned,
        "untuned_ratio_to_onnxruntime": reference,
        "seconds": {OURS: 1.0, UNTUNED: 1.0},
    }


def test_the_verdict():
    rows = {
        "resnet50-b1": ratios(2.0, 1.0, 1.1),
        "dcgan-b1": ratios(0.5, 0.25, 0.5),
        "minilm-b1": ratios(1.0, 0.5, 0.75),
    }
    assert network_report.verdict(rows).splitlines() == [
        "tuned, the paper's networks: ahead of the best peer on 1 of 2, geometric mean 1.000x, the slowest 0.500x (dcgan-b1)",
        "tuned, all networks: ahead of the best peer on 2 of 3, geometric mean 1.000x, the slowest 0.500x (dcgan-b1)",
        "untuned, the paper's networks: ahead of the best peer on 1 of 2, geometric mean 0.500x, the slowest 0.250x (dcgan-b1)",
        "untuned, all networks: ahead of the best peer on 1 of 3, geometric mean 0.500x, the slowest 0.250x (dcgan-b1)",
        "untuned against onnxruntime: all within 2x; the slowest 0.500x (dcgan-b1)",
    ]
    rows["dcgan-b1"]["untuned_ratio_to_onnxruntime"] = 0.49
    assert network_report.verdict(rows).endswith("not within 2x: dcgan-b1; the slowest 0.490x (dcgan-b1)")


def test_the_verdict_takes_tuned_figures_from_tuned_networks_and_names_errors():
    lines = network_report.verdict(ROWS).splitlines()
    assert lines[0].startswith("tuned, all networks: ahead of the best peer on 1 of 1, geometric mean 2.000x")
    assert lines[1].startswith("untuned, all networks: ahead of the best peer on 1 of 2, geometric mean 2.000x")
    assert lines[2:] == ["with errors: b"]


def test_a_profile_is_cut_to_the_costliest():
    steps = [StepTime(n, f"k{n}", "f32[2, 3]", (4 - n) * 1e-3, 10**6, "default") for n in range(4)]
    _, first, second, others = text(network_report.profile_table("p", Profile("p", tuple(steps)), 1e9, 2))
    assert first == ["k0", "f32[2, 3]", "1", "4,000.0", "40.0%", "0.2", "25.0%", "default"]
    assert second[0] == "k1"
    assert others[:5] == ["2 others", "", "2", "3,000.0", "30.0%"]
    assert len(text(network_report.profile_table("p", Profile("p", tuple(steps)), None))) == 1 + len(steps)


def test_memory_table():
    _, a, b, _ = text(network_report.memory_table(ROWS))
    assert a == ["a", "1.0", "2.0", "0.50", "4.0", "1.0"]
    assert b[1:] == [""] * 5


def test_plot(tmp_path):
    file = tmp_path / "curves.svg"
    network_report.plot(file, ROWS, ("torch", "openvino"))
    assert file.read_text().startswith("<?xml")
    with pytest.raises(SystemExit, match="nothing to draw"):
        network_report.plot(file, {"b": ROWS["b"]}, ("torch",))


# -- memory and overhead -------------------------------------------------------------------------------------------------


def test_peak_increase_sees_what_is_gone_again():
    size = 64 << 20
    assert 0.9 * size <= peak_increase(lambda: np.ones(size, np.uint8).sum()) < 2 * size  # the kernel counts pages in batches


@pytest.mark.long
def test_memory_of_a_saved_network(tmp_path):
    path = tmp_path / "chain.onnx"
    onnx.save(chain(4), path)
    network = Network("chain", path, {"x": np.ones((1, SIZE), np.float32)})
    found = memory(network, tuned(load(network), Budget())[0], 2)
    assert set(found) == {OURS, "onnxruntime"}
    assert all(0 <= sizes["network"] < sizes["library"] for sizes in found.values())


def test_overhead():
    row = overhead(SETTINGS, kernels=5)
    assert row["kernels"] == 5
    assert set(row["seconds"]) == {OURS, f"{OURS} called from Python", "onnxruntime"}
    whole = row["seconds"][OURS]
    assert row["overhead_per_kernel"] == pytest.approx(whole / 5 - row["work_per_kernel"])
    assert "per kernel beyond its work" in network_report.overhead_text(row)


def test_the_chain_keeps_its_values():
    import onnxruntime

    x = np.random.default_rng(0).standard_normal((1, SIZE)).astype(np.float32)
    session = onnxruntime.InferenceSession(chain(100).SerializeToString(), providers=["CPUExecutionProvider"])
    assert np.linalg.norm(session.run(None, {"x": x})[0]) == pytest.approx(np.linalg.norm(x), rel=1e-4)


# -- the command line ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def script() -> object:
    """`import networks` is the package of the PyTorch modules."""
    file = Path(network_contest.__file__).with_name("networks.py")
    specification = importlib.util.spec_from_file_location("networks_script", file)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


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


def test_a_whole_run(script, network, monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(script.models.MODELS, "tiny", lambda name, batch: network)
    file = tmp_path / "out.json"
    words = ["--models", "tiny", "--untuned", "--peers", "onnxruntime", "--timing", "0", "--json", str(file)]
    assert script.main(words) == 0
    row = json.loads(file.read_text())["tiny-b1"]
    assert row["best_peer"] == "onnxruntime"
    printed = capsys.readouterr().out
    assert f"{row['ratio_to_best_peer']:.3f} times onnxruntime" in printed
    assert "untuned against onnxruntime: " in printed
    monkeypatch.setattr(network_contest, "TOLERANCE", -1.0)
    assert script.main(words) == 1
    assert "ERROR: wrong answer: tensorsmith" in capsys.readouterr().out
