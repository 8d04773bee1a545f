"""Simulated annealing, plans that differ, and the tuner that plans by a model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from tests.baselines.test_templates import dense

from tensorsmith.baselines.annealing import Annealer, Annealing, diverse
from tensorsmith.baselines.autotvm.loop_features import features
from tensorsmith.baselines.autotvm.template_model import TemplateModel
from tensorsmith.baselines.knobs import Point, Template
from tensorsmith.baselines.tuners import ModelBased, ModelTuner

PACK = dense(64, 64, 64)["dense_pack"]


def distance(point: Point) -> int:
    """To the point whose knobs are all in their middle."""
    return sum(abs(value - len(knob) // 2) for value, knob in zip(point, PACK.knobs))


def score(points: Sequence[Point]) -> np.ndarray:
    return np.array([1.0 / (1 + distance(p)) for p in points])


def test_annealing_finds_the_best_that_are_not_excluded() -> None:
    annealer = Annealer(PACK, np.random.default_rng(0), Annealing())
    found = annealer.best(score, 8, set(), lambda: False)
    assert distance(found[0]) <= 1 and [distance(p) for p in found] == sorted(distance(p) for p in found)
    assert np.mean([distance(p) for p in PACK.points()]) > 9  # by chance it would be as far as that
    again = annealer.best(score, 8, set(found), lambda: False)
    assert not set(again) & set(found) and distance(again[0]) <= 2


def test_annealing_stops_when_nothing_changes_and_when_it_is_told_to() -> None:
    steps = 0

    def flat(points: Sequence[Point]) -> np.ndarray:
        nonlocal steps
        steps += 1
        return np.zeros(len(points))

    Annealer(PACK, np.random.default_rng(0), Annealing(chains=4, patience=10)).best(flat, 2, set(), lambda: False)
    assert 10 < steps < 40  # of 500
    steps = 0
    Annealer(PACK, np.random.default_rng(0), Annealing(chains=4)).best(flat, 2, set(), lambda: True)
    assert steps == 1


def test_what_scores_below_0_is_dropped() -> None:
    annealer = Annealer(PACK, np.random.default_rng(0), Annealing(chains=8, steps=20))
    assert annealer.best(lambda points: score(points) - 2, 8, set(), lambda: False) == []


def test_a_plan_whose_knobs_differ() -> None:
    """spec: baselines.md, section 8, item 5"""
    points = [(0, 0), (0, 1), (1, 1), (1, 0)]
    assert diverse([0.0] * 4, points, 2) == [0, 2]
    assert diverse([0.0, 9.0, 0.0, 0.0], points, 2) == [1, 3]  # the paper's: by score too


def worth(scores: Sequence[float], points: Sequence[Point], alpha: float, chosen: Sequence[int]) -> float:
    """The paper's L(S): the scores of a plan, and alpha for every value of every knob in it (baselines.md, section 1.6)."""
    return sum(scores[n] for n in chosen) + alpha * sum(len(set(values)) for values in zip(*(points[n] for n in chosen)))


@pytest.mark.parametrize("alpha", [0.1, 1.0])
def test_a_plan_is_nearly_the_best_by_score_and_diversity(alpha: float) -> None:
    """Greedy choice of a submodular function: at least 1 - 1/e of the best of all plans, and better than the best scores alone."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        points = list({tuple(p) for p in rng.integers(0, 4, (9, 3)).tolist()})
        scores = rng.random(len(points)).tolist()
        mine = diverse(scores, points, 3, alpha)
        best = max(worth(scores, points, alpha, plan) for plan in combinations(range(len(points)), 3))
        assert len(set(mine)) == 3 and worth(scores, points, alpha, mine) >= (1 - 1 / np.e) * best
        highest = np.argsort(scores)[::-1][:3].tolist()
        assert worth(scores, points, alpha, mine) >= worth(scores, points, alpha, highest) - 1e-9


@pytest.mark.parametrize(("alpha", "by_score"), [(0.0, False), (1.0, False), (1e-6, True)])
def test_the_plan_of_the_paper_is_by_score_where_alpha_is_small(alpha: float, by_score: bool) -> None:
    settings = ModelBased(plan=20, diversity=2.0, alpha=alpha, annealing=Annealing(chains=32, steps=40))
    tuner = ModelTuner(PACK, np.random.default_rng(0), TemplateModel(), described, lambda m, t, points: score(points), settings)
    for point in [PACK.random(np.random.default_rng(n)) for n in range(40)]:
        tuner.observe(point, 1e-3 * (1 + distance(point)))
    tuner.propose(lambda: False)
    scores = [float(score([p])[0]) for p in tuner.plan]
    assert len(scores) == 19 and (scores == sorted(scores, reverse=True)) == by_score


def described(template: Template, points: Sequence[Point]) -> tuple[list[np.ndarray], np.ndarray]:
    return [row[None] for row in features(template, points, "knob")], np.zeros(len(points))


def predicted(model: object, template: Template, points: Sequence[Point]) -> np.ndarray:
    assert isinstance(model, TemplateModel)
    return model.predict(features(template, points, "knob")[:, None, :])


def test_the_model_plans_after_a_random_plan_and_ends_it_with_random_points() -> None:
    settings = ModelBased(plan=60, annealing=Annealing(chains=32, steps=40))
    tuner = ModelTuner(PACK, np.random.default_rng(0), TemplateModel(), described, predicted, settings)
    means = []
    for number in range(3):
        points = []
        for _ in range(60):
            point = tuner.propose(lambda: False)
            assert point is not None
            points.append(point)
        assert tuner.fits == number
        for point in points:
            tuner.observe(point, 1e-3 * (1 + distance(point)))
        means.append(np.mean([distance(p) for p in points]))
    assert means[1] < means[0] - 2 and means[2] < means[0] - 2
    assert len(tuner.plan) == 0 and len(tuner.seconds) == 180
