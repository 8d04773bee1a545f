"""What a policy is: it is asked for candidates to measure and told what came out. No I/O, no clock, no environment.

    policy = make(space, seed=0, hints=(), model=model)
    candidates = policy.ask(16, stop)      worth measuring next
    policy.tell(trials)              what they took, or why they failed
    policy.finish(16)                in the last part of a run: what is near the best

A new policy is a class, or a function that makes one, in a file of its own. `register_policy` gives it a name,
`ts.tune(policy=...)` takes the name, the class or the function, and `tensorsmith.testing.check_policy` tells whether it keeps what
is promised here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tensorsmith.errors import Parameter, UserError
from tensorsmith.plugins import Registry
from tensorsmith.search.trial import Trial
from tensorsmith.show.line import line
from tensorsmith.space.sketch.sketch import Candidate

if TYPE_CHECKING:  # a program that only names a policy loads neither space nor models
    from tensorsmith.learn.models.model import CostModel
    from tensorsmith.learn.models.registry import GivenModel
    from tensorsmith.search.transfer import Teaching
    from tensorsmith.space.population.population import Space
    from tensorsmith.space.rules.base import Rule


def never() -> bool:
    """Of a search that nothing stops."""
    return False


class Policy(Protocol):
    """Proposes candidates of one workload. The same seed and the same results give the same candidates."""

    def ask(self, count: int, stop: Callable[[], bool] = never) -> list[Candidate]:
        """At most `count` candidates to measure next, none of them asked for or told before.

        Fewer only where there are no more, or where `stop()`, which is to be asked some times a second, came true; none at all
        means that the space is exhausted, and ends the search.
        """

    def tell(self, trials: Sequence[Trial]) -> None:
        """Results, in any order: of candidates that were asked for, of earlier runs, of some of either timed once more (the last
        result counts). Any may have failed. Those of other workloads, or of no use to the policy, are passed over.
        """

    def finish(self, count: int) -> list[Candidate]:
        """At most `count` candidates near the best, as `ask` gives them; none if the policy knows nothing better than to go on."""

    @property
    def best_seconds(self) -> float | None:
        """The least time told so far, None before the first that ran."""


@runtime_checkable
class Hinted(Protocol):
    """What a policy may have besides: it listens while it searches."""

    def hint(self, candidates: Sequence[Candidate]) -> None:
        """Good candidates of similar workloads, found since the search began, the most similar first: to be tried soon."""


def programs_of(policy: Policy) -> int | None:
    """How many programs a policy can choose from; None for one that does not say, because it searches all of the space.

    A policy that has a space of its own has this number as `programs`: people are told.
    """
    count = getattr(policy, "programs", None)
    return None if count is None else int(count)


def proposals(name: str, word: str, found: object) -> list[Candidate]:
    """What `ask` or `finish`, the `word`, of the policy of that name gave. Raises `UserError` unless it is a list of candidates."""
    if isinstance(found, (list, tuple)):
        stranger = next((one for one in found if not isinstance(one, Candidate)), None)
        if stranger is None:
            return list(found)
        gave = f"a {type(found).__name__} with a {type(stranger).__name__} in it"
    else:
        gave = "None" if found is None else f"a {type(found).__name__}"
    empty = "an empty one means that its space is exhausted" if word == "ask" else "an empty one if it knows none"
    raise UserError(f"policy {name}: {word}(...) gave {gave}; it has to give a list of Candidate, {empty}")


class MakePolicy(Protocol):
    """The class of a policy, or a function that makes one."""

    def __call__(self, space: Space, *, seed: int, hints: Sequence[Candidate], model: CostModel) -> Policy:
        """`space` is what the rules derive for the workload on the target; a policy may search a part of it, or a space of its own
        that it makes of `space.workload` and `space.target`: a candidate holds its structure, so any can be measured.
        `hints` are good candidates of this workload or of similar ones, the most similar first. The `model` is the policy's own;
        it may have learned from other workloads, or nothing yet.
        """


@dataclass(frozen=True)
class Preset:
    """A policy under a name, with the rules, the cost model and the formulations that it has unless the user says otherwise."""

    name: str
    make: MakePolicy
    rules: str | Sequence[Rule] = "default"
    model: GivenModel = "trees"
    pretrained: bool = False  # whether its trees begin with what the package's model knows, unless the user names a model
    formulations: str = "all"  # "direct": the system it is taken from knows no other definition than the one that is written
    transfer: bool | Teaching = True  # whether, or how, a model that is not ready learns from records of other workloads at first

    def __repr__(self) -> str:
        return line(self, self.name)


_PLACE = "tensorsmith.search.policies"

#: by file: the names of the presets that it has, and what each is called there
_BUILT_IN = {
    "tensorsmith": {"tensorsmith": "PRESET"},
    "ansor": {"ansor": "PRESET", "ansor-nofinetune": "NO_FINETUNE", "ansor-limited": "LIMITED_SPACE"},
    "ablations": {
        "tensorsmith-noseeds": "NO_SEEDS",
        "tensorsmith-noprior": "NO_PRIOR",
        "tensorsmith-notrees": "NO_TREES",
        "tensorsmith-noevolution": "NO_EVOLUTION",
        "tensorsmith-nodescent": "NO_DESCENT",
        "tensorsmith-nopretrained": "NO_PRETRAINED",
        "tensorsmith-notransfer": "NO_TRANSFER",
        "tensorsmith-crossover": "CROSSOVER",
    },
    "random": {"random": "PRESET"},
}

POLICIES: Registry[Preset | MakePolicy] = Registry(
    "policy",
    {name: f"{_PLACE}.{file}:{word}" for file, presets in _BUILT_IN.items() for name, word in presets.items()},
    group="tensorsmith.policies",
)


def register_policy(preset: Preset) -> None:
    """Makes a policy known under its name."""
    POLICIES.add(preset.name, preset)


def as_preset(given: str | Preset | MakePolicy) -> Preset:
    """A policy given by its name or place, as a class or function, or with its rules and model."""
    found: Any = POLICIES.get(given) if isinstance(given, str) else given
    if isinstance(found, Preset):
        return found
    if not callable(found) or (hasattr(found, "ask") and not isinstance(found, type)):
        what = "a policy that is made already" if hasattr(found, "ask") else "no policy"
        raise UserError(
            Parameter("policy"),
            f" is {given!r}, {what}; give one of {', '.join(POLICIES.names())}, or a class or function that makes one of "
            "(space, seed, hints, model)",
        )
    return Preset(getattr(found, "__name__", type(found).__name__), found)
