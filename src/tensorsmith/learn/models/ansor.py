"""Ansor's cost model: boosted trees on Ansor's own 164 features, with the loss and the constants of TVM 0.14 (`xgb_model.py`).

What is different: LightGBM grows the trees, leaf by leaf, where the source has XGBoost, level by level.
"""

from __future__ import annotations

from tensorsmith.learn.models.trees import TreeModel, TreeSettings

#: constants of `xgb_model.py` (spec: ansor.md, section 7.2). A tree of depth 10 with few samples has some tens of leaves
TREES = TreeSettings(
    loss="paper", trees=10_000, rate=0.2, depth=10, leaves=64, gain=0.001, l2=1.0, least_in_leaf=1, features=1.0, warm=100,
    stop="error", patience=50, seed=43,
)  # fmt: skip


class AnsorModel(TreeModel):
    """The paper's trees on the paper's features."""

    kind = "ansor"
    features = "ansor"

    def __init__(self, settings: TreeSettings = TREES) -> None:
        super().__init__(settings)
