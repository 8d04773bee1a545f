"""`torch.compile(module, backend="tensorsmith")`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tensorsmith.errors import UserError
from tensorsmith.frontends.torch import backend as module_of_backend
from tensorsmith.frontends.torch import partition as module_of_partition
from tensorsmith.frontends.torch.backend import backend
from tensorsmith.frontends.torch.fallback import FallbackWarning
from tensorsmith.frontends.torch.options import Options
from tensorsmith.graph.passes import optimise

pytestmark = pytest.mark.peers

OURS = "torch.compile with the backend tensorsmith"


class Dense(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 4)
        self.register_buffer("shift", torch.arange(4.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.layer(x)) + self.shift


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """PyTorch keeps what it compiled by the code of functions, which tests share."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The graphs that were compiled."""
    found: list[Any] = []
    build = Options.build

    def noted(self: Options, graph: Any, **given: Any) -> Any:
        found.append(graph)
        return build(self, graph, **given)

    monkeypatch.setattr(Options, "build", noted)
    return found


def _compiled(module: Any, **options: Any) -> Callable[..., Any]:
    return torch.compile(module, backend=backend, options=options or None)


def _close(got: torch.Tensor, want: torch.Tensor) -> bool:
    return got.dtype == want.dtype and torch.allclose(got, want, rtol=1e-5, atol=1e-5)


def _said(run: Callable[[], Any]) -> list[str]:
    """What our backend warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [str(w.message) for w in caught if str(w.message).startswith(OURS)]


@torch.no_grad()
def test_a_module_runs_in_one_executable_and_parameters_are_constants_of_it(built: list[Any]) -> None:
    module, x = Dense(), torch.randn(3, 6)
    compiled = _compiled(module)
    assert _said(lambda: compiled(x)) == []
    assert _close(compiled(x), module(x)) and len(built) == 1
    assert [v.shape for v in built[0].inputs] == [(3, 6)]


def test_it_runs_in_inference_mode(built: list[Any]) -> None:
    with torch.inference_mode():
        module, x = Dense(), torch.randn(3, 6)  # parameters that do not count their changes
        compiled = _compiled(module)
        assert _close(compiled(x), module(x)) and len(built) == 1


@torch.no_grad()
def test_a_changed_parameter_is_noticed_and_one_that_changes_again_becomes_an_input(built: list[Any]) -> None:
    module, x = Dense(), torch.randn(3, 6)
    compiled = _compiled(module)
    for n in range(5):
        module.layer.weight.mul_(1.5)
        assert _close(compiled(x), module(x)), n
        assert _close(compiled(x), module(x)), n
    assert len(built) == 3  # at first, after the first change, and after the second
    assert sorted(v.shape for v in built[2].inputs) == [(3, 6), (4, 6)]


@torch.no_grad()
def test_a_replaced_parameter_and_a_loaded_state_are_noticed() -> None:
    module, other, x = Dense(), Dense(), torch.randn(3, 6)
    compiled = _compiled(module)
    compiled(x)
    module.layer.weight.data = torch.randn(4, 6)
    assert _close(compiled(x), module(x))
    module.load_state_dict(other.state_dict())
    assert _close(compiled(x), other(x))
    module.layer.weight = nn.Parameter(torch.randn(4, 6))
    assert _close(compiled(x), module(x))


@torch.no_grad()
def test_modules_that_share_code_have_their_own_parameters() -> None:
    modules, x = [Dense() for _ in range(3)], torch.randn(3, 6)
    compiled = [_compiled(m) for m in modules]
    for _ in range(2):
        for c, m in zip(compiled, modules):
            assert _close(c(x), m(x))


@torch.no_grad()
def test_many_sets_of_parameters_are_inputs(built: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_of_backend, "_MOST_SETS", 2)
    module, x = Dense(), torch.randn(3, 6)
    compiled = _compiled(module)
    for _ in range(5):
        module.layer.weight = nn.Parameter(torch.randn(4, 6))
        assert _close(compiled(x), module(x))
    assert len(built) == 3


class Odd(nn.Module):
    """An operator that we do not have in the middle."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.special.i0(F.relu(self.first(x)))).softmax(-1)


@torch.no_grad()
def test_operators_that_we_do_not_have_run_in_pytorch_and_the_rest_in_executables(built: list[Any]) -> None:
    module, x = Odd(), torch.randn(3, 4)
    compiled = _compiled(module)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FallbackWarning)
        compiled(x), compiled(x)
    (said,) = [w.message for w in caught if isinstance(w.message, FallbackWarning)]
    assert said.operators == {"i0.default": 1}
    assert "1 of " in str(said) and "i0.default x1" in str(said)
    assert _close(compiled(x), module(x))
    assert len(built) == 2 and all(len(g.constants) >= 2 for g in built)


@torch.no_grad()
def test_a_warning_may_be_an_error() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        with pytest.raises(FallbackWarning, match=r"i0\.default x1"):
            _compiled(Odd())(torch.randn(3, 4))


def test_a_call_that_fails_in_our_code_is_handed_to_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so once, and PyTorch has the graph from then on. An argument that the graph changes is changed once."""

    def fails(self: Any, tensors: Any) -> Any:
        raise UserError("not today")

    monkeypatch.setattr(module_of_partition.Network, "__call__", fails)

    def changes(x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        total += x
        return x * 2

    run, x, total = _compiled(changes), torch.ones(3), torch.zeros(3)
    with torch.no_grad():
        (said,) = _said(lambda: run(x, total))
        assert "it runs in PyTorch from now on: UserError: not today" in said
        assert torch.equal(total, x)
        assert _said(lambda: run(x, total)) == []
        assert torch.equal(run(x, total), x * 2) and torch.equal(total, x * 3)


def test_an_error_that_pytorch_raises_too_is_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph stays ours: the next call is right again."""

    def looked_up(table: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return torch.special.i0(table)[i] + 1  # i0 runs in PyTorch

    run, table = _compiled(looked_up), torch.arange(3.0)
    usual = module_of_partition.Network.__call__

    def checked(self: Any, tensors: Any) -> Any:
        if any(t.dtype == torch.int64 and t.max() > 2 for t in tensors):
            raise UserError("out of range")
        return usual(self, tensors)

    monkeypatch.setattr(module_of_partition.Network, "__call__", checked)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        right = run(table, torch.tensor([1]))
        with pytest.raises(IndexError):
            run(table, torch.tensor([7]))
        calls: list[int] = []
        monkeypatch.setattr(module_of_partition.Network, "__call__", lambda self, t: calls.append(1) or usual(self, t))
        assert torch.equal(run(table, torch.tensor([1])), right) and calls


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("layer", [nn.BatchNorm2d, nn.InstanceNorm2d])
def test_norms_in_training_change_their_statistics(layer: Any, dtype: torch.dtype, built: list[Any]) -> None:
    torch.manual_seed(0)
    module = layer(3, affine=True, track_running_stats=True).to(dtype).train()
    other = layer(3, affine=True, track_running_stats=True).to(dtype).train()
    run = _compiled(module)
    tolerance = {"rtol": 2 * torch.finfo(dtype).eps, "atol": 2 * torch.finfo(dtype).eps}
    with torch.no_grad():
        for _ in range(2):
            x = torch.randn(2, 3, 4, 5).to(dtype)
            got = run(x)
            torch.testing.assert_close(got, other(x), **tolerance)
            for name, state in other.state_dict().items():
                torch.testing.assert_close(module.state_dict()[name], state, **tolerance)
    assert len(built) == 1


def test_where_gradients_are_recorded_it_runs_in_pytorch() -> None:
    module, x = Dense(), torch.randn(3, 6)
    compiled = _compiled(module)
    (said,) = _said(lambda: compiled(x))
    assert "gradients are recorded; call it under torch.no_grad()" in said
    compiled(x).sum().backward()
    assert module.layer.weight.grad is not None
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    assert _said(lambda: compiled(x)) == [] and _close(compiled(x), module(x))


@torch.no_grad()
def test_under_autocast_it_runs_in_pytorch() -> None:
    module, x = Dense(), torch.randn(3, 6)
    compiled = _compiled(module)
    with torch.autocast("cpu", torch.bfloat16):
        (said,) = _said(lambda: compiled(x))
        assert "autocast is on" in said
        assert torch.equal(compiled(x), module(x))

    def inside(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return module(x)

    (said,) = _said(lambda: _compiled(inside)(x))
    assert "uses autocast" in said


@torch.no_grad()
def test_on_another_device_it_runs_in_pytorch() -> None:
    module, x = Dense().to("meta"), torch.randn(3, 6, device="meta")
    (said,) = _said(lambda: _compiled(module)(x))
    assert "a tensor is on the device meta" in said


@torch.no_grad()
def test_control_flow_by_data_makes_several_graphs(built: list[Any]) -> None:
    def choice(x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x) * 2
        return y + 1 if y.sum() > 1 else torch.sigmoid(x)

    compiled = _compiled(choice)
    for x in (torch.ones(4, 4), -torch.ones(4, 4)):
        assert _close(compiled(x), choice(x))
    assert len(built) >= 3


@torch.no_grad()
def test_shapes_that_vary_are_compiled_each(built: list[Any]) -> None:
    module = Dense()
    compiled = torch.compile(module, backend=backend, dynamic=True)
    for rows in (3, 5, 7, 3):
        x = torch.randn(rows, 6)
        assert _close(compiled(x), module(x))
    assert [g.inputs[0].shape for g in built] == [(3, 6), (5, 6), (7, 6)]


@torch.no_grad()
def test_shapes_begin_to_vary_with_the_second_one(built: list[Any]) -> None:
    """PyTorch's own way: the first graph is for one shape, the second for all."""
    module = Dense()
    compiled = torch.compile(module, backend=backend)
    for n in (3, 5, 7, 3, 5):
        x = torch.randn(n, 6)
        assert _close(compiled(x), module(x))
    rows = [g.inputs[0].shape[0] for g in built]
    assert rows[:3] == [3, 5, 7] and len(rows) <= 4  # 3 is of the first graph, and may be of the second too


@torch.no_grad()
def test_the_last_shapes_stay_and_share_their_weights(built: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    build = Options.build
    monkeypatch.setattr(Options, "build", lambda self, graph, **given: made.append(build(self, graph, **given)) or made[-1])
    module = Dense()
    compiled = torch.compile(module, backend=backend, dynamic=True, options={"keep": 2})
    for rows in (64, 128, 64, 96, 64, 128):  # 96 comes in place of 128, the least recently used
        x = torch.randn(rows, 6)
        assert _close(compiled(x), module(x))
    assert [g.inputs[0].shape[0] for g in built] == [64, 128, 96, 128]
    addresses = [{a.ctypes.data for a in e.network.constants} for e in made]
    assert addresses[0] & addresses[1]


@torch.no_grad()
def test_many_shapes_do_not_make_parameters_inputs(built: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_of_backend, "_MOST_SETS", 2)
    module = Dense()
    compiled = torch.compile(module, backend=backend, dynamic=True)
    for rows in (2, 3, 4, 5):
        x = torch.randn(rows, 6)
        assert _close(compiled(x), module(x))
    assert [len(g.inputs) for g in built] == [1, 1, 1, 1]


@torch.no_grad()
def test_sizes_among_the_results(built: list[Any]) -> None:
    def sized(x: torch.Tensor, y: torch.Tensor) -> tuple[Any, ...]:
        return torch.relu(x).reshape(x.shape[0] * 3, -1), x.shape[0], y[:, : x.shape[0]] + 1

    compiled = torch.compile(sized, backend=backend, dynamic=True)
    for rows in (4, 5):
        x, y = torch.randn(rows, 6), torch.randn(2, 10)
        got, wanted = compiled(x, y), sized(x, y)
        assert torch.equal(got[0], wanted[0]) and got[1] == rows and torch.equal(got[2], wanted[2])
    assert len(built) >= 2


@torch.no_grad()
def test_views_of_inputs_stay_views_and_changes_of_inputs_are_made() -> None:
    def viewed(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y.add_(1)
        return x.view(-1)[2:], torch.relu(x), x.transpose(0, 1)

    compiled, x, y = _compiled(viewed), torch.randn(3, 4), torch.zeros(2)
    flat, positive, turned = compiled(x, y)
    assert torch.equal(y, torch.ones(2)) and _close(positive, torch.relu(x))
    x.zero_()
    assert float(flat.abs().sum()) == 0 and float(turned.abs().sum()) == 0 and float(positive.sum()) > 0


@torch.no_grad()
def test_buffers_that_a_module_changes_are_changed(built: list[Any]) -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x * self.calls

    module = Counting()
    compiled = _compiled(module)
    results = [float(compiled(torch.ones(4))[0]) for _ in range(4)]
    assert results == [1, 2, 3, 4] and float(module.calls[0]) == 4 and len(built) == 1


@torch.no_grad()
def test_tensors_in_and_out_share_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    build = Options.build

    def watched(self: Options, graph: Any, constants: Any = None) -> Any:
        executable = build(self, graph, constants)

        def call(*arrays: Any) -> Any:
            seen.append((arrays, executable(*arrays)))
            return seen[-1][1]

        return call

    monkeypatch.setattr(Options, "build", watched)
    module, x = Dense(), torch.randn(3, 6)
    y = _compiled(module)(x)
    (((array,), given),) = seen
    assert array.ctypes.data == x.data_ptr() and given.ctypes.data == y.data_ptr() and _close(y, module(x))


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(20, 24, 3, padding=1), nn.Conv2d(24, 20, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.second(F.relu(self.first(x)))
        return y, y.mean((2, 3)).T


@torch.no_grad()
def test_tensors_with_channels_last_are_taken_and_given_as_they_lie(built: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    module = Images().to(memory_format=torch.channels_last)
    compiled = _compiled(module)
    x = torch.randn(2, 20, 5, 7).contiguous(memory_format=torch.channels_last)
    got, want = compiled(x), module(x)
    assert all(_close(g, w) and g.stride() == w.stride() for g, w in zip(got, want))
    assert built[0].inputs[0].shape == (2, 5, 7, 20)
    assert "transpose" not in [node.operator for node in optimise(built[0]).nodes]
    array = module_of_partition.array_of
    seen: list[Any] = []
    monkeypatch.setattr(module_of_partition, "array_of", lambda t: seen.append(array(t)) or seen[-1])
    compiled(x)
    assert [a.ctypes.data for a in seen] == [x.data_ptr()]


@torch.no_grad()
def test_tensors_in_an_order_of_their_own_and_with_gaps(built: list[Any]) -> None:
    def summed(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (x + y).permute(2, 0, 1), torch.relu(x)

    x, y = torch.randn(4, 5, 3).permute(1, 2, 0), torch.randn(5, 3, 8)[:, :, ::2]
    compiled = _compiled(summed)
    for _ in range(2):
        assert all(_close(g, w) for g, w in zip(compiled(x, y), summed(x, y)))
    assert [v.shape for v in built[0].inputs] == [(4, 5, 3), (5, 3, 4)]


@torch.no_grad()
def test_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = Dense(), torch.randn(3, 6)
    seen: list[int] = []
    call = module_of_backend.Network.__call__

    def noted(self: Any, tensors: list[torch.Tensor]) -> Any:
        seen.append(self._executable.threads)
        return call(self, tensors)

    monkeypatch.setattr(module_of_backend.Network, "__call__", noted)
    assert _close(_compiled(module, threads=1)(x), module(x))
    assert seen == [1]


@torch.no_grad()
def test_a_graph_is_tuned_with_a_database(tmp_path: Path) -> None:
    module, x = Dense(), torch.randn(3, 6)
    database = str(tmp_path / "tune.db")
    assert _close(_compiled(module, database=database, seconds=2.0, effort="quick")(x), module(x))
    torch._dynamo.reset()
    assert Path(database).exists()
    assert _said(lambda: _compiled(module, database=database)(x)) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"speed": 3}, "no option 'speed'; it has database, seconds, effort, threads"),
        ({"threads": 0}, "threads is 0; give a whole number, 1 to 4096"),
        ({"effort": "fast"}, "no effort 'fast'; it is one of model, quick, normal, thorough"),
        ({"seconds": "10"}, "seconds is '10'; give a number"),
        ({"database": 3}, "database is 3; give the path of a record file"),
        ({"database": "nowhere.db"}, "no database nowhere.db; give 'seconds' or 'effort' as well"),
        ({"keep": 0}, "keep is 0; give how many shapes are to stay compiled, at least 1"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        backend(torch.fx.symbolic_trace(Dense()), [torch.randn(3, 6)], options=options)


def test_a_mode_is_refused() -> None:
    with pytest.raises(UserError, match="mode='max-autotune' means nothing"):
        backend(torch.fx.symbolic_trace(Dense()), [torch.randn(3, 6)], mode="max-autotune")


def test_pytorch_finds_the_backend_by_its_name(tmp_path: Path) -> None:
    """The package as it is installed: with what pyproject.toml says about entry points, and nobody imports it."""
    root = Path(__file__).parents[2]
    (section,) = re.findall(r"\[project\.entry-points\.torch_dynamo_backends\]\n((?:.+\n)+)", (root / "pyproject.toml").read_text())
    info = tmp_path / "tensorsmith-9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tensorsmith\nVersion: 9\n")
    (info / "entry_points.txt").write_text("[torch_dynamo_backends]\n" + section.replace('"', ""))
    code = (
        "import sys, torch; m = torch.nn.Linear(4, 3); x = torch.randn(2, 4)\n"
        "with torch.no_grad(): y = torch.compile(m, backend='tensorsmith')(x); assert torch.allclose(y, m(x), atol=1e-5)\n"
        "assert 'tensorsmith.frontends.torch.backend' in sys.modules"
    )
    path = os.pathsep.join([str(tmp_path), str(root / "src")])
    subprocess.run([sys.executable, "-W", "error::UserWarning", "-c", code], check=True, env={**os.environ, "PYTHONPATH": path})


def test_the_model_may_choose_and_nothing_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr("tensorsmith.predicted.foresee", lambda missing, *more: asked.append(len(missing)) or {})
    monkeypatch.setattr(sys.modules["tensorsmith.tune"], "tune", lambda *arguments, **options: pytest.fail("a search"))
    module, x = torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.ReLU()).eval(), torch.randn(32, 64)
    for options, wanted in (({}, []), ({"effort": "model"}, [1])):
        with torch.no_grad():
            torch.compile(module, backend=backend, options=options)(x)
            torch.compiler.reset()
        assert asked == wanted
