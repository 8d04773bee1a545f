"""AutoTVM (Chen et al., "Learning to Optimize Tensor Programs", NeurIPS 2018), with the constants of TVM 0.14.

A template is a schedule by an expert with some knobs open (`baselines/autotvm/templates.py`). A tuner proposes points of it
(`baselines/tuners.py`): simulated annealing under boosted trees, or chance, order or genes alone. Where an operator has several
templates, they are tuned in turns.

    autotvm            trees on loops (itervar), squared error: the source's defaults
    autotvm-paper      trees on the knobs: what the Ansor paper was compared with (spec: baselines.md, section 7.1)
    autotvm-rank       the paper's loss over pairs; a plan has no point with a score below 0, as in the source
    autotvm-curve      features that are the same for other shapes and operators
    autotvm-diverse    a plan of points whose knobs differ, chosen among the best twice as many (the source's filter, off there)
    autotvm-diverse-paper   by score too, as in the paper: the sum of scores, and alpha for each value of a knob in the plan
    autotvm-ei, autotvm-ucb   several trees, and what their differences promise (the paper's section on uncertainty)
    autotvm-transfer   begins with what other workloads of the same template taught (section 1.7)
    autotvm-random, autotvm-grid, autotvm-ga

Its own trees see its own features; any other model that is given (`model="mlp"`) sees ours. A template's space is small: a point
that cannot be built counts as one that failed, and is never asked for; one that is the same program as another is passed over.
When all points are visited, the search is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tensorsmith.backends import space_of
from tensorsmith.baselines.autotvm.bagged import BaggedModel, Doubt
from tensorsmith.baselines.autotvm.loop_features import features
from tensorsmith.baselines.autotvm.template_model import TREES, TemplateModel, TemplateSettings
from tensorsmith.baselines.autotvm.templates import templates_of
from tensorsmith.baselines.knobs import Point, Template
from tensorsmith.baselines.ledger import Ledger
from tensorsmith.baselines.tuners import GaTuner, Genetic, IndexTuner, ModelBased, ModelTuner, Tuner
from tensorsmith.learn.models.model import Array, CostModel, Samples
from tensorsmith.search.policy import Preset, never
from tensorsmith.search.scores import describe
from tensorsmith.search.transfer import Taught, Teaching
from tensorsmith.search.trial import Trial
from tensorsmith.space.population.population import Population, Space
from tensorsmith.space.population.repair import repair
from tensorsmith.space.rules.root import AtTheRoot
from tensorsmith.space.sketch.sketch import Candidate
from tensorsmith.targets.target import Target


@dataclass(frozen=True)
class Settings:
    """Which tuner, and its constants (spec: baselines.md, sections 1.5 and 1.6)."""

    tuner: str = "model"  # or "random", "grid", "ga"
    by_model: ModelBased = ModelBased()  # noqa: RUF009  frozen
    genetic: Genetic = Genetic()  # noqa: RUF009  frozen


SETTINGS = Settings()
_REMEMBERED = 100_000  # points whose features are kept, as in the source


class AutoTvmPolicy:
    """Templates of one workload, tuned in turns."""

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        hints: Sequence[Candidate] = (),
        model: CostModel | None = None,
        settings: Settings = SETTINGS,
    ) -> None:
        """Of `space` only the workload and the target count; `hints` are for policies that use them."""
        self.space, self.settings = space, settings
        self.model = model if model is not None else TemplateModel()
        self.ledger = Ledger(space.workload)
        self.templates = templates_of(space)
        streams = np.random.default_rng(seed).spawn(len(self.templates))
        self.tuners = [self._tuner(t, rng, n) for n, (t, rng) in enumerate(zip(self.templates, streams))]
        self.where: dict[int, tuple[int, Point]] = {}  # by program: the template and the point
        self._features: dict[str, dict[Point, Array]] = {}  # by template
        self._turn = 0

    def _tuner(self, template: Template, rng: np.random.Generator, number: int) -> Tuner:
        s = self.settings
        if s.tuner == "ga":
            return GaTuner(template, rng, s.genetic)
        if s.tuner in ("random", "grid"):
            return IndexTuner(template, rng, in_order=s.tuner == "grid")
        own = self.model.of(template.name, number) if isinstance(self.model, TemplateModel) else self.model.fork(number)
        return ModelTuner(template, rng, own, self._describe, self._predict, s.by_model)

    @property
    def programs(self) -> int:
        """How many points its templates have."""
        return sum(t.size for t in self.templates)

    # -- ask and tell ----------------------------------------------------------------------------------------------------

    def ask(self, count: int, stop: Callable[[], bool] = never) -> list[Candidate]:
        found: list[Candidate] = []
        empty: set[int] = set()
        while len(found) < count and len(empty) < len(self.tuners) and not stop():
            number = self._turn % len(self.tuners)
            self._turn += 1
            if number in empty:
                continue
            candidate = self._proposed(number, stop)
            if candidate is None:
                empty.add(number)
            else:
                found.append(candidate)
        return found

    def _proposed(self, number: int, stop: Callable[[], bool]) -> Candidate | None:
        """The next candidate of a template that is new; those that cannot be built are told to the tuner as failures."""
        template, tuner = self.templates[number], self.tuners[number]
        while not stop():
            point = tuner.propose(stop)
            if point is None:
                return None
            if not template.valid([point])[0]:
                tuner.observe(point, None)
                continue
            candidate = template.candidate(point)
            program = self.ledger.program(candidate)
            if self.ledger.take(candidate):
                self.where[program] = number, point
                return candidate
            if program in self.ledger.seconds:  # another point is the same program
                tuner.observe(point, self.ledger.seconds[program])
        return None

    def tell(self, trials: Sequence[Trial]) -> None:
        for told in self.ledger.tell(trials):
            place = self.where.get(told.program) or self._find(told.candidate)
            if place is not None:
                self.where[told.program] = place
                self.tuners[place[0]].observe(place[1], told.seconds)

    def _find(self, candidate: Candidate) -> tuple[int, Point] | None:
        for number, template in enumerate(self.templates):
            point = template.find(candidate)
            if point is not None:
                return number, point
        return None

    def finish(self, count: int) -> list[Candidate]:
        return []

    @property
    def best_seconds(self) -> float | None:
        return self.ledger.best_seconds

    # -- what a model sees -----------------------------------------------------------------------------------------------

    def _describe(self, template: Template, points: Sequence[Point]) -> tuple[list[Array], Array]:
        if isinstance(self.model, TemplateModel):
            return [row[None] for row in self._own_features(template, points, self.model.features)], np.zeros(len(points))
        rows, prior, places = describe(template.space, [Population(0, repair(template.plan, template.rows(points)))], self.model)
        order = np.argsort([row for _, row in places])
        values = [one for matrix in rows.matrices() for one in matrix.values]
        return [values[n] for n in order.tolist()], prior[order]

    def _own_features(self, template: Template, points: Sequence[Point], kind: str) -> list[Array]:
        """Each worked out once: chains of a walk come by the same points again and again."""
        known = self._features.setdefault(template.name, {})
        if len(known) > _REMEMBERED:
            known.clear()
        new = [p for p in dict.fromkeys(points) if p not in known]
        if new:
            known.update(zip(new, features(template, new, kind)))
        return [known[p] for p in points]

    def _predict(self, model: CostModel, template: Template, points: Sequence[Point]) -> Array:
        """Throughputs, relative to the best: 0 for what cannot be built."""
        unique = list(dict.fromkeys(points))
        if isinstance(model, TemplateModel):
            scores = model.predict(np.stack(self._own_features(template, unique, model.features))[:, None, :])
        else:
            rows, prior, places = describe(template.space, [Population(0, repair(template.plan, template.rows(unique)))], model)
            scores = np.empty(len(unique))
            scores[[row for _, row in places]] = np.exp2(model.predict(rows, prior)) * (self.best_seconds or 1e-6)
        known = dict(zip(unique, scores.tolist()))
        return np.array([known[p] for p in points])


# -- transfer (section 1.7) --------------------------------------------------------------------------------------------------

LEAST = 500  # records of the same template, below which nothing is learned
MOST = 4000
WORKLOADS = 64


def teach(trials: Sequence[Trial], target: Target, model: CostModel) -> Taught | None:
    """What trials of other workloads teach of templates; only points of a template count, if there are enough of them."""
    taught = model.fork()
    if not isinstance(taught, TemplateModel):
        return None
    by_workload: dict[str, list[Trial]] = {}
    for trial in trials:
        by_workload.setdefault(trial.candidate.sketch.workload.canonical_key, []).append(trial)
    found: dict[str, list[tuple[str, Array, float]]] = {}  # by template: workload, features, throughput
    for key, mine in by_workload.items():
        workload = mine[0].candidate.sketch.workload
        best = min((t.seconds for t in mine if t.seconds is not None), default=None)
        for template in templates_of(space_of(workload, target, (AtTheRoot(),))) if best else ():
            places = [(t, p) for t in mine if (p := template.find(t.candidate)) is not None]
            if places:
                values = features(template, [p for _, p in places], taught.features)
                rows = ((key, row, best / t.seconds if best and t.seconds else 0.0) for row, (t, _) in zip(values, places))
                found.setdefault(template.name, []).extend(rows)
    learned: set[str] = set()
    for name, rows_of in found.items():
        if len(rows_of) >= LEAST:
            width = max(len(row) for _, row, _ in rows_of)
            samples = Samples()
            for key, row, throughput in rows_of:
                samples.add(np.pad(row, (0, width - len(row)))[None], throughput, key)
            taught.teach(name, samples)
            learned |= set(samples.group)
    return Taught(taught, frozenset(learned)) if taught.bases else None


_CHEAP = (AtTheRoot(),)  # the sketches of a workload are not looked at: templates are its space


def _preset(name: str, model: TemplateModel | str, settings: Settings = SETTINGS, transfer: bool | Teaching = False) -> Preset:
    return Preset(
        name, partial(AutoTvmPolicy, settings=settings), rules=_CHEAP, model=model, transfer=transfer, formulations="direct"
    )


_MODEL = TemplateSettings()

PRESET = _preset("autotvm", TemplateModel())
PAPER = _preset("autotvm-paper", TemplateModel(replace(_MODEL, features="knob")))
RANK = _preset("autotvm-rank", TemplateModel(replace(_MODEL, trees=replace(TREES, loss="pairs"))))
CURVE = _preset("autotvm-curve", TemplateModel(replace(_MODEL, features="curve")))
DIVERSE = _preset("autotvm-diverse", TemplateModel(), replace(SETTINGS, by_model=ModelBased(diversity=2.0)))
#: the paper gives no alpha. Scores are at most about 1, so a new value of a knob counts as much as the best point
DIVERSE_PAPER = _preset("autotvm-diverse-paper", TemplateModel(), replace(SETTINGS, by_model=ModelBased(diversity=2.0, alpha=1.0)))
EI = _preset("autotvm-ei", BaggedModel(doubt=Doubt("ei")))
UCB = _preset("autotvm-ucb", BaggedModel(doubt=Doubt("ucb")))
TRANSFER = _preset(
    "autotvm-transfer", TemplateModel(replace(_MODEL, features="curve")), transfer=Teaching(teach, WORKLOADS, MOST, LEAST)
)
RANDOM = _preset("autotvm-random", "random", Settings(tuner="random"))
GRID = _preset("autotvm-grid", "random", Settings(tuner="grid"))
GA = _preset("autotvm-ga", "random", Settings(tuner="ga"))
