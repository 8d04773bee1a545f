"""A derivation rule of one's own: a short sum, such as a pooling window, with its reduction laid out step by step.

python examples/rule_short_window.py
tensorsmith tune MODEL.onnx --rules examples/rule_short_window.py:RULES
"""

from __future__ import annotations

import tensorsmith as ts
from tensorsmith.backends import rule_set
from tensorsmith.ops.pool import avg_pool
from tensorsmith.space.rules.base import Derived, State, Verdict
from tensorsmith.space.sketch.nest import Nest
from tensorsmith.targets.target import Target

SHORT = 4  # steps of each reduction axis at most


class ShortWindow:
    """C[i] = sum(A[i + k], over k<3)    ->    for i.0: k laid out, lanes along i.1"""

    name = "short_window"

    def condition(self, state: State, index: int, target: Target) -> Verdict:
        stage = state.stage(index)
        short = stage.reduction is not None and all(a.extent <= SHORT for a in stage.reduce_axes)
        wide = bool(stage.axes) and stage.axes[-1].extent >= target.lanes()
        return Verdict.APPLY_AND_SKIP_REST if short and wide else Verdict.SKIP

    def apply(self, state: State, index: int, target: Target) -> Derived:
        stage = state.stage(index)
        outer = " ".join(f"{a.name}.0" for a in stage.axes)
        window = " ".join(f"{a.name}.0!" for a in stage.reduce_axes)  # `!`: laid out step by step
        lanes = f"{stage.axes[-1].name}.1"
        nest = Nest(stage.name, f"{outer} | {window} {lanes}", vector=lanes)
        return [(state.with_nest(nest), index - 1)]


#: asked before ours; `register_rule(ShortWindow())` would do the same for all searches of this process
RULES = (ShortWindow(), *rule_set("default"))


if __name__ == "__main__":
    x = ts.placeholder((1, 32, 32, 64), name="x")
    y = avg_pool(x, kernel=3, stride=2)
    for sketch in ts.sketches([x, y], rules=RULES):
        print(sketch.brief())
    print(ts.tune([x, y], trials=24, rules=RULES).benchmark())
