"""The benchmark of whole networks, on tiny ones: who takes part, what is right, and what is reported."""

import dataclasses
import json
from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch

import frameworks
import network_contest
import network_report
import ours_networks
from contest import Settings
from frameworks import Unavailable
from models import Network
from network_contest import TOLERANCE, Entry, difference
from network_memory import memory
from network_overhead import SIZE, chain, overhead
from ours_networks import Budget, Search, flops, load, schedules, tuned
from peers_networks import NetworkPeer, fixed_shapes, forms
from report import write_json
from rows import ALONE, OURS, UNTUNED
from tensorsmith.backends import backend, backend_of
from tensorsmith.compile import compile
from tensorsmith.runtime.executable import Executable
from tensorsmith.space.plain import plain_candidate
from tensorsmith.targets.target import native

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
def short_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_contest, "SLOT_SECONDS", 1e-4)
    monkeypatch.setattr(network_contest, "MIN_ROUNDS", 2)


def wanted(network: Network) -> list[np.ndarray]:
    with torch.inference_mode():
        return [y.numpy() for y in build()(torch.from_numpy(network.inputs["x"]))]


# -- peers ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("framework", "names"),
    [
        ("torch", ["torch", "torch last"]),
        ("onnxruntime", ["onnxruntime run", "onnxruntime bound"]),
        ("openvino", ["openvino call", "openvino infer", "openvino async"]),
        pytest.param(
            "torch.compile",
            ["torch.compile", "torch.compile frozen", "torch.compile stock", "torch.compile stock last"],
            marks=pytest.mark.long,
        ),
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
        forms("torch.compile", network, 2)
    assert counters["inductor"]["mkldnn_conv_weight_pack_matcher_count"] == 2  # not in the stock ones


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
    monkeypatch.setitem(frameworks.FRAMEWORKS, "openvino", "no_such_module")
    with pytest.raises(Unavailable, match="no_such_module is not installed"):
        forms("openvino", network, 2)


# -- answers -------------------------------------------------------------------------------------------------------------


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
    monkeypatch.setitem(frameworks.FRAMEWORKS, "onnxruntime", "no_such_module")
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
    peers = {"torch", "torch last", "onnxruntime run", "onnxruntime bound"}
    assert set(row["seconds"]) == set(row["median_seconds"]) == {OURS, *peers}
    assert row["best_peer"] in peers
    assert row["ratio_to_best_peer"] == pytest.approx(row["seconds"][row["best_peer"]] / row["seconds"][OURS])
    assert (row["trials"], row["seconds_searching"]) == (0, 0.0)
    assert row["untuned_ratio_to_best_peer"] == row["ratio_to_best_peer"]
    best = min(row["seconds"]["onnxruntime run"], row["seconds"]["onnxruntime bound"])
    assert row["untuned_ratio_to_onnxruntime"] == pytest.approx(best / row["seconds"][OURS])
    assert max(row["difference"].values()) < 1e-5
    assert entry.ours is not None
    assert row["share_of_peak"] == pytest.approx(flops(entry.ours) / row["seconds"][OURS] / row["peak_flops"])
    assert flops(entry.ours) >= 2 * 8 * 3 * 9 * 9 * 7
    assert sum(row["kernels"].values()) == sum(schedules(entry.ours).values()) > 0
    write_json(tmp_path / "out.json", {"tiny": row})
    assert json.loads((tmp_path / "out.json").read_text())["tiny"]["best_peer"] == row["best_peer"]


def other_schedules(model: object) -> Executable:
    """The network with plain schedules, as if a search had found them."""
    plain = dataclasses.replace(backend_of(native()), default_candidate=lambda workload, target: plain_candidate(workload))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(backend._known, "cpu", plain)
        return compile(model)


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that finds other programs than the default schedules."""
    without_search = ours_networks.tuned

    def tuned(model, budget):
        return (other_schedules(model), Search(trials=4)) if budget.searching else without_search(model, budget)

    monkeypatch.setattr(ours_networks, "tuned", tuned)


def test_untuned_is_no_peer_of_ours(network, searched):
    entry = Entry(network, replace(SETTINGS, frameworks=("onnxruntime",)))
    entry.prepare(Budget(trials=4))
    with torch.inference_mode():
        row = entry.measure()
    assert row["best_peer"].startswith("onnxruntime")
    assert set(row["seconds"]) == {OURS, UNTUNED, "onnxruntime run", "onnxruntime bound"}
    assert row["untuned_ratio_to_best_peer"] == pytest.approx(row["seconds"][row["best_peer"]] / row["seconds"][UNTUNED])
    assert row["tuned_to_untuned"] == pytest.approx(row["seconds"][UNTUNED] / row["seconds"][OURS])
    assert row["untuned_ratio_to_onnxruntime"] == row["untuned_ratio_to_best_peer"]
    assert set(row["seconds_preparing"]) == {"onnxruntime"}


def test_default_schedules_are_timed_once(network):
    entry = Entry(network, replace(SETTINGS, frameworks=("onnxruntime",)))
    entry.prepare(Budget(trials=0))  # finds nothing else
    with torch.inference_mode():
        row = entry.measure()
    assert set(row["seconds"]) == {OURS, "onnxruntime run", "onnxruntime bound"}
    assert row["same_program"] and row["tuned_to_untuned"] == 1.0
    assert row["untuned_ratio_to_best_peer"] == row["ratio_to_best_peer"]


def test_the_profile_of_whatever_is_behind(network, searched):
    entry = Entry(network, SETTINGS)
    entry.prepare(Budget(trials=4))

    def behind(**figures: float) -> list[str]:
        return [name for name, _ in entry.profiles(figures)]

    assert behind(ratio_to_best_peer=1.0, untuned_ratio_to_onnxruntime=0.5) == []
    assert behind(ratio_to_best_peer=0.99, untuned_ratio_to_onnxruntime=0.5) == [OURS]
    assert behind(ratio_to_best_peer=0.99, untuned_ratio_to_onnxruntime=0.49) == [OURS, UNTUNED]
    (_, profile), *_ = entry.profiles({"ratio_to_best_peer": 0.5})
    assert profile.seconds > 0
    assert behind() == []
    entry = Entry(network, SETTINGS)
    entry.prepare(None)  # as with --untuned: ours are the default schedules
    assert behind(untuned_ratio_to_onnxruntime=0.49) == [OURS]


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
    assert "onnxruntime run" in row["seconds"]


def test_a_model_that_cannot_be_read_is_an_error_of_the_row(network, tmp_path):
    entry = Entry(replace(network, path=tmp_path / "missing.onnx"), replace(SETTINGS, frameworks=()))
    entry.prepare(None)
    assert len(entry.errors) == 1
    assert "missing.onnx" in entry.errors[0]


@pytest.mark.long
def test_tuning_is_noted(network, tmp_path):
    executable, search = tuned(load(network), Budget(trials=48, database=str(tmp_path / "tune.db")))
    assert search.trials == 48
    assert search.curve
    assert search.seconds > 0
    assert schedules(executable).get("record", 0) >= 1


# -- memory and overhead -------------------------------------------------------------------------------------------------


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
    assert set(row["seconds"]) == {OURS, ALONE, "onnxruntime run", "onnxruntime bound"}
    assert row["overhead_per_kernel"] == pytest.approx(row["seconds"][ALONE] / 5 - row["work_per_kernel"])
    assert row["python_call"] == pytest.approx(row["seconds"][OURS] - row["seconds"][ALONE])
    assert "per kernel beyond its work" in network_report.overhead_text(row)


def test_the_chain_keeps_its_values():
    import onnxruntime

    x = np.random.default_rng(0).standard_normal((1, SIZE)).astype(np.float32)
    session = onnxruntime.InferenceSession(chain(100).SerializeToString(), providers=["CPUExecutionProvider"])
    assert np.linalg.norm(session.run(None, {"x": x})[0]) == pytest.approx(np.linalg.norm(x), rel=1e-4)


# -- the command line ----------------------------------------------------------------------------------------------------


def test_a_whole_run(script, network, monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(script.models.MODELS, "tiny", lambda name, batch: network)
    file = tmp_path / "out.json"
    words = ["--models", "tiny", "--untuned", "--peers", "onnxruntime", "--timing", "0", "--json", str(file)]
    assert script.main(words) == 0
    found = json.loads(file.read_text())
    assert found["_run"]["versions"]["onnxruntime"]
    row = found["tiny-b1"]
    assert row["best_peer"].startswith("onnxruntime")
    printed = capsys.readouterr().out
    assert f"{row['ratio_to_best_peer']:.3f} times {row['best_peer']}" in printed
    assert "untuned against onnxruntime: " in printed
    monkeypatch.setattr(network_contest, "TOLERANCE", -1.0)
    assert script.main(words) == 1
    assert "ERROR: wrong answer: tensorsmith" in capsys.readouterr().out
