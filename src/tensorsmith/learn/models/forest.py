"""Boosted trees asked about many rows at once, on one core, some times faster than their library answers row by row.

A row goes left or right at thousands of comparisons, and a processor cannot guess which. So nothing branches here: the answers
of a comparison for all rows are bits side by side, and one operation on words moves many rows down a tree:

    feature <= threshold  ->  a bit per row          (each different comparison once, whatever trees make it)
    reached & bit, reached & ~bit                    (level by level, all trees together)
    leaf reached  ->  its number, a bit at a time    ->  the leaf's value, added up over trees
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tensorsmith.errors import InternalError

Array = np.ndarray[Any, np.dtype[Any]]

_ROWS = 8192  # at once: what they take should stay in a cache
_ALL = ~np.uint64(0)
_AT_MOST = {"0", "2", "8", "10"}  # LightGBM's numbers for "at most", wherever a NaN would go


class _Level(NamedTuple):
    """The comparisons of all trees at one depth. Comparison n sends rows to the places 2n (left) and 2n + 1 of the next depth."""

    inputs: Array  # places in this depth
    comparisons: Array
    leaves: Array  # places in the next depth that are leaves
    slots: Array  # of these leaves: leaf * trees + tree


class Forest:
    """The trees of a LightGBM model with numerical features and no missing values."""

    def __init__(self, text: str) -> None:
        """Reads LightGBM's own text of a model."""
        trees = [_fields(part) for part in text.split("\nTree=")[1:]]
        kinds = {kind for t in trees for kind in t.get("decision_type", "").split()}
        if kinds - _AT_MOST:
            raise InternalError(f"trees with decisions of type {', '.join(sorted(kinds - _AT_MOST))}; only comparisons are known")
        self.trees = len(trees)
        features = [_numbers(t, "split_feature", np.int64) for t in trees]
        # a float32 is at most a float64 just when it is at most the greatest float32 that is
        thresholds = [_rounded_down(_numbers(t, "threshold", np.float64)) for t in trees]
        pairs = np.stack([np.concatenate(features).astype(np.float64), np.concatenate(thresholds).astype(np.float64)], axis=1)
        distinct, number = np.unique(pairs, axis=0, return_inverse=True)
        self.features, first = np.unique(distinct[:, 0].astype(np.int64), return_index=True)
        self.bounds = np.split(distinct[:, 1].astype(np.float32)[:, None], first[1:])  # by feature: its thresholds, a column
        self.comparisons = len(distinct)
        values = [_numbers(t, "leaf_value", np.float64) for t in trees]
        self.bits = max(1, int(max(len(v) for v in values) - 1).bit_length())
        self.values = np.zeros((self.trees, 1 << self.bits))
        for tree, v in enumerate(values):
            self.values[tree, : len(v)] = v
        self.levels = self._by_level(trees, np.split(number.reshape(-1), np.cumsum([len(f) for f in features])[:-1]))

    def _by_level(self, trees: list[dict[str, str]], comparisons: list[Array]) -> list[_Level]:
        children = [(_numbers(t, "left_child", np.int64).tolist(), _numbers(t, "right_child", np.int64).tolist()) for t in trees]
        here = [(tree, 0 if len(comparisons[tree]) else -1) for tree in range(self.trees)]  # a leaf is ~number
        self.single = [tree for tree, node in here if node < 0]  # trees of one leaf
        levels = []
        while any(node >= 0 for _, node in here):
            inputs = [place for place, (_, node) in enumerate(here) if node >= 0]
            asked = [int(comparisons[here[p][0]][here[p][1]]) for p in inputs]
            after = [(here[p][0], side[here[p][1]]) for p in inputs for side in children[here[p][0]]]
            leaves = [place for place, (_, node) in enumerate(after) if node < 0]
            slots = [~after[p][1] * self.trees + after[p][0] for p in leaves]
            levels.append(_Level(np.array(inputs), np.array(asked), np.array(leaves, np.int64), np.array(slots, np.int64)))
            here = after
        return levels

    def predict(self, columns: Array) -> Array:
        """The sum over trees for every row, from `columns[feature, row]`, float32."""
        count = columns.shape[1]
        found = np.zeros(count)
        memory = _Memory(self, min(count, _ROWS))
        for start in range(0, count, _ROWS):
            some = columns[:, start : start + _ROWS]
            if some.strides[1] != some.itemsize:  # given row by row
                some = np.ascontiguousarray(some)
            self._add_up(self._reached(some, memory), memory, found[start : start + _ROWS])
        return found

    def _reached(self, columns: Array, memory: _Memory) -> Array:
        """By leaf and tree, a bit for each row."""
        rows = columns.shape[1]
        start = 0
        for feature, bounds in zip(self.features.tolist(), self.bounds):
            stop = start + len(bounds)
            below = memory.below[: len(bounds), :rows]
            np.less_equal(columns[feature], bounds, out=below)
            memory.answers[start:stop, : -(-rows // 8)] = np.packbits(below, axis=1)
            start = stop
        answers = memory.answers.view(np.uint64)
        here, after = memory.here, memory.after
        here[: self.trees] = _ALL
        flat = memory.reached.reshape(-1, here.shape[1])
        for level in self.levels:
            count = len(level.inputs)
            came, left = memory.came[:count], memory.left[:count]
            np.take(here, level.inputs, axis=0, out=came, mode="clip")
            np.take(answers, level.comparisons, axis=0, out=left, mode="clip")
            sides = after[: 2 * count].reshape(count, 2, -1)
            np.bitwise_and(came, left, out=sides[:, 0])
            np.bitwise_xor(came, sides[:, 0], out=sides[:, 1])
            flat[level.slots] = after[level.leaves]
            here, after = after, here
        return memory.reached

    def _add_up(self, reached: Array, memory: _Memory, total: Array) -> None:
        """Adds the value of the leaf that each row reaches in each tree."""
        leaf = memory.leaf[:, : len(total)]
        leaf.fill(0)
        for bit in reversed(range(self.bits)):
            low, high = reached[: 1 << bit], reached[1 << bit : 2 << bit]
            leaf <<= 1
            leaf |= np.unpackbits(np.bitwise_or.reduce(high, axis=0).view(np.uint8), axis=1, count=len(total))
            reached = np.bitwise_or(low, high, out=memory.folded[: 1 << bit])
        value = memory.value[: len(total)]
        for values, reaches in zip(self.values, leaf):
            np.take(values, reaches, out=value, mode="clip")
            total += value


class _Memory:
    """What is written anew for every few rows: fresh memory would cost more than the work on it."""

    def __init__(self, forest: Forest, rows: int) -> None:
        words = -(-rows // 64)
        widest = max((len(x.inputs) for x in forest.levels), default=0)
        self.below: Array = np.empty((max(map(len, forest.bounds), default=0), rows), bool)
        self.answers: Array = np.zeros((forest.comparisons, 8 * words), np.uint8)
        self.came, self.left = np.empty((2, widest, words), np.uint64)
        self.here, self.after = np.empty((2, max(forest.trees, 2 * widest), words), np.uint64)
        self.reached: Array = np.zeros((1 << forest.bits, forest.trees, words), np.uint64)
        self.reached[0, forest.single] = _ALL
        self.folded: Array = np.empty((1 << forest.bits >> 1, forest.trees, words), np.uint64)
        self.leaf: Array = np.empty((forest.trees, rows), np.min_scalar_type((1 << forest.bits) - 1))
        self.value: Array = np.empty(rows)


def _fields(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def _numbers(fields: dict[str, str], name: str, kind: type) -> Array:
    return np.array(fields.get(name, "").split(), kind)


def _rounded_down(values: Array) -> Array:
    near = values.astype(np.float32)
    return np.where(near > values, np.nextafter(near, np.float32(-np.inf)), near)
