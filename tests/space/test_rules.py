"""The rules one by one, rules of the user's own, and sketches as loops."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
from pathlib import Path

import numpy as np
import pytest
from tests.space.test_derive import TARGET, conv_nchw, matmul, of_one, total, two_matmuls, winograd_nhwc

from tensorsmith.backends import register_rule, registered, rule_set, rules_added, sketches, space_of
from tensorsmith.backends.cpu.rules import ANSOR, DEFAULT
from tensorsmith.backends.cpu.rules.register_tile import RegisterTile
from tensorsmith.backends.cpu.rules.rfactor import AddRfactor
from tensorsmith.build import build
from tensorsmith.errors import UserError
from tensorsmith.lang import define as ts
from tensorsmith.ops import catalogue, norm
from tensorsmith.space.rules.alias import AliasOutput
from tensorsmith.space.rules.base import State, Verdict
from tensorsmith.space.rules.cache_write import AddCacheWrite
from tensorsmith.space.rules.constant import ConstantTensor
from tensorsmith.space.rules.fusion import TilingWithFusion
from tensorsmith.space.rules.inline import AlwaysInline
from tensorsmith.space.rules.place import LeavePlaceOpen
from tensorsmith.space.rules.skip import Skip
from tensorsmith.space.rules.tiling import Tiling
from tensorsmith.space.sketch.loops import AttachPoint
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.space.sketch.text import show

DOCS = Path(__file__).parents[2] / "docs" / "rules.md"


def verdict(rule, workload, stage):
    names = [s.name for s in workload.stages]
    return rule.condition(State(workload), names.index(stage), TARGET)


def applied(rule, workload, stage):
    """The states a rule gives for a stage, with the name of the stage to go on with."""
    names = [s.name for s in workload.stages]
    derived = rule.apply(State(workload), names.index(stage), TARGET)
    return [(state, state.stage(index).name if index >= 0 else None) for state, index in derived]


def matmul_relu(n=512, m=512, k=512, constant=False):
    a, b, over = ts.placeholder((n, k), name="A"), ts.placeholder((k, m), name="B", constant=constant), ts.reduce_axis(k, "k")
    c = ts.compute((n, m), lambda i, j: ts.sum(a[i, over] * b[over, j], axis=over), name="C")
    return ts.workload([a, b, ts.compute((n, m), lambda i, j: ts.maximum(c[i, j], 0.0), name="D")])


# -- built-in rules ----------------------------------------------------------------------------------------------------


def test_inline():
    w = conv_nchw()
    found = {s.name: verdict(AlwaysInline(), w, s.name) for s in w.stages}
    assert [n for n, v in found.items() if v is Verdict.APPLY_AND_SKIP_REST] == ["bias_add", "mul", "add"]  # relu is the output
    ((state, following),) = applied(AlwaysInline(), w, "add")
    assert following == "mul"
    assert "add" not in {s.name for s in state.now.stages}


def test_alias():
    w = catalogue.get("GRP-small").workload()
    output = w.outputs[0]
    assert verdict(AliasOutput(), w, output) is Verdict.APPLY_AND_SKIP_REST
    assert verdict(AliasOutput(), matmul_relu(), "D") is Verdict.SKIP
    ((state, following),) = applied(AliasOutput(), w, output)
    assert state.now.outputs == (following,) == ("conv2d",)


def test_constant():
    w = winograd_nhwc(1, 28, 28, 128, 128)
    found = [s.name for s in w.stages if verdict(ConstantTensor(), w, s.name) is Verdict.APPLY_AND_SKIP_REST]
    assert found == ["winograd_data", "winograd_inverse"]
    ((state, _),) = applied(ConstantTensor(), w, "winograd_data")
    nest = state.nest("winograd_data")
    assert nest is not None and set(map(str, nest.unrolled)) == {"u.0", "v.0", "r.0", "s.0"} and str(nest.vector) == "ci.1"


def test_constant_without_another_axis():
    g = ts.compute((3, 4), lambda i, j: ts.select(ts.equal(i, j), 1.0, 0.5), name="G")
    x, r = ts.placeholder((3,), name="X"), ts.reduce_axis(3, "r")
    w = ts.workload([x, ts.compute((4,), lambda j: ts.sum(x[r] * g[r, j], axis=r), name="Y")])
    ((state, _),) = applied(ConstantTensor(), w, "Y")
    assert state.nest("Y") == Nest("Y", "j.0! | r.0!")
    sketches(w, "ansor", TARGET)
    long = ts.placeholder((3, 64), name="L")
    wide = ts.compute((64, 64), lambda p, q: ts.sum(long[r, p] * g[r, q % 4], axis=r), name="W")
    ((state, _),) = applied(ConstantTensor(), ts.workload([long, wide]), "W")
    assert state.nest("W") == Nest("W", "p.0 q.0 | r.0! q.1", vector="q.1")  # 64 values of q are not laid out


def test_rfactor():
    rule, ours = AddRfactor(), AddRfactor(few_results=True)
    assert verdict(rule, total(128), "B") is verdict(ours, total(128), "B") is Verdict.APPLY
    assert verdict(rule, total(4), "B") is Verdict.SKIP  # no more elements than cores
    assert verdict(rule, matmul(8, 8, 512), "C") is Verdict.APPLY
    assert verdict(rule, matmul(8, 9, 512), "C") is Verdict.SKIP  # 72 results keep four cores busy
    assert verdict(rule, matmul(8, 8, 32), "C") is Verdict.SKIP  # more results than elements
    rows = of_one(norm.softmax, 1024, 128)
    assert verdict(rule, rows, "softmax_sum") is Verdict.APPLY
    assert verdict(ours, rows, "softmax_sum") is Verdict.SKIP  # threads share the rows
    derived = applied(rule, total(128), "B")
    assert [s.rewrites[0].inner for s, _ in derived] == [False, True]
    assert [following for _, following in derived] == [None, None]
    assert all(s.choice("B", "factor") is not None for s, _ in derived)


def test_cache_write():
    assert verdict(AddCacheWrite(), matmul(64, 64, 64), "C") is Verdict.APPLY
    assert verdict(AddCacheWrite(), matmul_relu(), "C") is Verdict.SKIP  # D is its cache
    assert verdict(AddCacheWrite(), matmul_relu(), "D") is Verdict.SKIP
    ((state, following),) = applied(AddCacheWrite(), matmul(64, 64, 64), "C")
    assert following == "C.cache"
    assert AddCacheWrite().condition(state, 0, TARGET) is Verdict.SKIP
    assert TilingWithFusion().condition(state, 0, TARGET) is Verdict.APPLY_AND_SKIP_REST


def test_a_cache_that_is_inlined_leaves_its_copy_a_nest():
    w = catalogue.get("layer_norm-small").workload()  # reads four rows and columns again and again, and costs nothing
    found = sketches(w, "ansor", TARGET)
    assert len(found) == 2 * 9  # inlined or tiled, times the ways of two reductions


def test_fusion_and_tiling():
    w = matmul_relu()
    assert verdict(TilingWithFusion(), w, "C") is Verdict.APPLY
    assert verdict(TilingWithFusion(), w, "D") is verdict(Tiling(), w, "D") is Verdict.SKIP
    assert verdict(TilingWithFusion(), matmul(64, 64, 64), "C") is Verdict.SKIP
    nests = [state.nest("C") for state, _ in applied(TilingWithFusion(), w, "C")]
    assert [str(n.at) for n in nests if n] == ["D:2", "D:4"]
    ((state, _),) = applied(Tiling(), w, "C")
    assert state.nest("C") == Nest("C", "i.0 j.0 i.1 j.1 k.0 i.2 j.2 | k.1 i.3 j.3", vector="j.3")
    ((state, _),) = applied(Tiling(), matmul(1, 64, 64), "C")  # an axis of one element has one loop
    assert state.nest("C") == Nest("C", "i.0 j.0 j.1 k.0 j.2 | k.1 j.3", vector="j.3")


def test_register_tile():
    w = matmul_relu()
    assert verdict(RegisterTile(), w, "C") is Verdict.APPLY_AND_SKIP_REST
    assert verdict(RegisterTile(), w, "D") is Verdict.SKIP
    derived = [state for state, _ in applied(RegisterTile(), w, "C")]
    copied = [[r.tensor for r in s.rewrites] for s in derived]
    assert [] in copied and ["B"] in copied and ["B", "A"] in copied
    held = derived[0]
    tile = held.nest("C")
    assert tile is not None and tile.outer == () and tile.at == AttachPoint("D", 4)  # at the register tile itself
    loops = held.choice("D", "loops")
    assert loops is not None and len(loops.options) == 4
    constant = [state for state, _ in applied(RegisterTile(), matmul_relu(constant=True), "C")]
    assert all("B" not in r.fields() for s in constant for r in s.rewrites)
    assert all(s.nest("C").packed == ("B",) for s in constant)


def test_register_tiles_keep_an_output_that_is_read():
    w = two_matmuls(64)
    w = dataclasses.replace(w, outputs=("D", "E"))
    assert {sketch.nest("D").at for sketch in sketches(w, target=TARGET)} == {None}


def test_place_and_skip():
    w = conv_nchw()
    (sketch, *_) = sketches(w, target=TARGET)
    assert sketch.nest("pad").at is None
    softmax = of_one(norm.softmax, 512, 512)
    (sketch,) = sketches(softmax, target=TARGET)
    (choice,) = sketch.choices
    assert choice.hole == "softmax.rows" and choice.options == ("0", "1")
    assert set(choice.members) == {"softmax_max", "softmax_exp", "softmax_sum"}
    inside = sketch.resolve({"softmax.rows": 1})
    assert {inside.nest(m).at for m in choice.members} == {AttachPoint("softmax", 1)}
    for rule, expected in ((LeavePlaceOpen(), Verdict.APPLY_AND_SKIP_REST), (Skip(), Verdict.APPLY)):
        assert verdict(rule, softmax, "softmax") is expected
        ((state, _),) = applied(rule, softmax, "softmax")
        assert applied_again(rule, state, "softmax") == state  # a nest that is there stays


def applied_again(rule, state, stage):
    ((again, _),) = rule.apply(state, [s.name for s in state.now.stages].index(stage), TARGET)
    return again


# -- the sets and rules of the user's own ------------------------------------------------------------------------------


class Plain:
    """Computes every output with plain loops, besides what the other rules do."""

    def __init__(self, name="plain", verdict=Verdict.APPLY):
        self.name, self.verdict = name, verdict

    def condition(self, state, index, target):
        return self.verdict if state.stage(index).name in state.now.outputs else Verdict.SKIP

    def apply(self, state, index, target):
        stage = state.stage(index)
        outer, reduce = (" ".join(f"{a.name}.0" for a in axes) for axes in (stage.axes, stage.reduce_axes))
        return [(state.with_nest(Nest(stage.name, f"{outer} | {reduce}")), index - 1)]


def test_rule_sets():
    assert rule_set("default") == DEFAULT and rule_set("ansor") == ANSOR
    assert [r.name for r in ANSOR] == ["inline", "constant", "rfactor", "cache_write", "fusion", "tiling", "skip"]
    with pytest.raises(UserError, match="there is no rule set 'tvm'; known are default, ansor"):
        rule_set("tvm")
    with pytest.raises(UserError, match="no rule set 'tvm'"):
        sketches(matmul(4, 4, 4), "tvm")


def test_sketches_takes_tensors_workloads_and_lists_of_rules():
    a, b = ts.placeholder((8, 8), name="A"), ts.placeholder((8, 8), name="B")
    c = ts.compute((8, 8), lambda i, j: a[i, j] + b[i, j], name="C")
    assert sketches([a, b, c], target=TARGET) == sketches(ts.workload([a, b, c]), target=TARGET)
    assert sketches([a, b, c])[0].workload == ts.workload([a, b, c])
    (sketch,) = sketches([a, b, c], [Plain()], TARGET)
    assert sketch.nests == (Nest("C", "i.0 j.0 | "),)


@pytest.mark.parametrize("rules, message", [(5, "rules is 5"), ([5], "5 has no name")])
def test_what_is_no_list_of_rules_is_refused(rules, message):
    with pytest.raises(UserError, match=message):
        sketches(matmul_relu(8, 8, 8), rules=rules)


def test_rules_of_the_users_own():
    w = matmul(64, 64, 64)
    before = {rules: sketches(w, rules, TARGET) for rules in ("default", "ansor")}
    with rules_added(Plain()):
        assert [r.name for r in registered()] == ["plain"]
        for rules, found in before.items():
            added = sketches(w, rules, TARGET)
            assert added[0].brief() == "C: i.0 j.0 | k.0" and added[1:] == found
        with rules_added(Plain("only", Verdict.APPLY_AND_SKIP_REST), position="tiling"):
            # asked after the rule for cache writes, and in Ansor's set alone
            assert [r.name for r in rule_set("ansor")].index("only") == 6
            assert "only" not in {r.name for r in rule_set("default")}
    assert registered() == ()
    assert {rules: sketches(w, rules, TARGET) for rules in before} == before


def test_rules_are_taken_back_after_an_error():
    with contextlib.suppress(ZeroDivisionError), rules_added(Plain()):
        raise ZeroDivisionError
    assert registered() == ()
    with pytest.raises(UserError, match="'plain' already"), rules_added(Plain(), Plain()):
        pass
    assert registered() == ()


@pytest.mark.parametrize(
    "rule, position, message",
    [
        (object(), "first", "has no name, no condition, no apply; a rule has"),
        (Skip, "first", "is a class, not an instance"),
        (Plain("tiling"), "first", "a rule called 'tiling' already"),
        (Plain(), "last", "goes \"first\" or before one of alias, reshape, inline, .*; got 'last'"),
    ],
)
def test_what_is_no_rule_is_refused(rule, position, message):
    with pytest.raises(UserError, match=message):
        register_rule(rule, position)
    assert registered() == ()


def test_registered_rules_are_in_every_space():
    with rules_added(Plain(verdict=Verdict.APPLY_AND_SKIP_REST)):
        (plan,) = space_of(matmul(4, 4, 4), TARGET).plans
        listed = space_of(matmul(4, 4, 4), TARGET, DEFAULT).plans
    assert plan.sketch == sketches(matmul(4, 4, 4), [Plain()], TARGET)[0]
    assert plan.sketch not in [p.sketch for p in listed]  # a list is taken as it stands
    assert len(space_of(matmul(4, 4, 4), TARGET, "ansor").plans) == len(sketches(matmul(4, 4, 4), "ansor", TARGET))


def test_a_nest_that_does_not_fit_is_reported():
    class Wrong(Plain):
        def apply(self, state, index, target):
            return [(state.with_nest(Nest(state.stage(index).name, "x.0 |")), index - 1)]

    with rules_added(Wrong()), pytest.raises(UserError, match=r"nest of C: the loop 'x\.0' is of no axis"):
        sketches(matmul(4, 4, 4), target=TARGET)


def test_the_documented_rule_works():
    """The code of docs/rules.md runs and prints what is written there; its sketch computes the average."""
    text = DOCS.read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    printed = io.StringIO()
    scope: dict[str, object] = {}
    with contextlib.redirect_stdout(printed):
        exec(code, scope)
    assert f"```text\n{printed.getvalue()}```" in text
    sketch = scope["sketch"].resolve({})
    decisions = {h: 0 if h.endswith(".parallel") else 8 if h.endswith(".c.1") else 1 for h in sketch.holes}
    x = np.random.default_rng(0).uniform(-1, 1, (1, 32, 32, 64)).astype("f4")
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))[:, ::2, ::2]
    np.testing.assert_allclose(build(Candidate(sketch, decisions))(x=x), windows.mean((-1, -2)), atol=1e-6)


def test_every_built_in_rule_is_documented():
    text = DOCS.read_text()
    for rule in (*DEFAULT, *ANSOR):
        assert f"\n### {rule.name}\n" in text and f"| `{rule.name}` |" in text


# -- sketches as loops -------------------------------------------------------------------------------------------------


def test_show_a_fused_sketch():
    sketch = sketches(matmul_relu(), "ansor", TARGET)[0]
    assert show(sketch).splitlines() == [
        "parallel? i.0 < 512/D.i.1:",
        "  parallel? j.0 < 512/(D.j.1*D.j.2):",
        "    for i.0 < D.i.1/(C.i.1*C.i.2):",
        "      for j.0 < D.j.1*D.j.2/(C.j.1*C.j.2):",
        "        for k.0 < 512/C.k.1:",
        "          for i.1 < C.i.1:",
        "            for j.1 < C.j.1:",
        "              tile reduce k.1 < C.k.1 by C.unroll, unroll i.2 < C.i.2, vector j.2 < C.j.2:",
        "                C[i, j] += A[i, k] * B[k, j]",
        "    for i.1 < D.i.1:",
        "      for j.1 < D.j.1:",
        "        tile vector j.2 < D.j.2:",
        "          D[i, j] = max(C[i, j], 0.0)",
    ]


def test_show_the_place_of_a_padding():
    sketch = sketches(conv_nchw(1, 8, 8, 4, 4), "ansor", TARGET)[-1]
    (choice,) = sketch.choices
    place = choice.options.index("conv:3")
    lines = show(sketch, {"pad.at": place}).splitlines()
    assert lines[3].startswith("pad.at?: root / ") and "[conv:3]" in lines[3]
    assert "      for h_.0 < conv.y.1*conv.y.2*conv.y.3 + 2:" in [line.removeprefix("    ") for line in lines]


def test_show_rows_and_copies():
    (sketch,) = sketches(of_one(norm.softmax, 512, 512), target=TARGET)
    lines = show(sketch, {"softmax.rows": 1}).splitlines()
    assert lines[0] == "softmax.rows? of softmax_sum, softmax_exp, softmax_max: 0 / [1]"
    assert lines[2:5] == [
        "parallel? i0.0 < 512:",
        "  for i0.0 < 1:",
        "    tile reduce k.0 < 512/softmax_max.k.1, vector k.1 < softmax_max.k.1 by softmax_max.unroll:",
    ]
    assert sum(line.startswith("parallel?") for line in lines) == 1
    copied = next(s for s in sketches(matmul(64, 64, 64), target=TARGET) if s.rewrites)
    assert "copy in the order of the loops of C: B.pack[k, j] = B[k, j]" in show(copied)


@pytest.mark.parametrize("rules", ["default", "ansor"])
def test_every_hole_is_shown(rules):
    """Parallel degrees aside, which only mark the loops."""
    for name in ("C2D-small", "TBS-small", "T2D-small", "GMM-small", "softmax-small", "argmax-small"):
        for sketch in sketches(catalogue.get(name).workload(), rules, TARGET):
            text = show(sketch)
            for hole in sketch.resolve({c.hole: 0 for c in sketch.choices}).holes:
                assert hole.endswith(".parallel") or re.search(rf"{re.escape(hole)}(?![\w.])", text), hole
            assert all(f"{c.hole}?" in text for c in sketch.choices)


def test_show_what_two_readers_need():
    """Inside the outer tiles of the last stage, more is needed of the padding than inside its own reader's place."""
    sketch = sketches(conv_nchw(1, 8, 8, 4, 4), "ansor", TARGET)[1]
    (choice,) = sketch.choices
    text = show(sketch, {"pad.at": choice.options.index("relu:3")})
    assert "for h_.0 < relu.k.1*relu.k.2 + 2:" in text
    assert "for w_.0 < 10/pad.w_.1:" in text
