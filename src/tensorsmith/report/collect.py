"""From a record file, and perhaps a model or a profile, to the data of a report."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tensorsmith.errors import TUNE, UserError
from tensorsmith.graph.model import Model
from tensorsmith.lang.workload import Workload
from tensorsmith.records import Store, Summary, Timing
from tensorsmith.records.keys import IN_NETWORK
from tensorsmith.report import data, machine
from tensorsmith.report.candidates import Candidates
from tensorsmith.report.curves import Clock, totals
from tensorsmith.report.task import Known, Subject
from tensorsmith.rewrites.formulations import formulations
from tensorsmith.runtime.profile import Profile
from tensorsmith.targets.target import Target, native


def of_records(
    store: Store,
    *,
    model: Model | None = None,
    profile: Profile | None = None,
    peak: tuple[str, Mapping[str, float]] | None = None,
    race: Sequence[data.Runner] = (),
    candidates: Candidates | None = None,
) -> data.Report:
    """The report of an open record file. `peak`: the key of a target, and what was measured on that machine.

    `candidates` may be kept from one report to the next, which is then made faster. Raises `UserError` if there is nothing to say.
    """
    summaries = store.workloads()
    if not summaries:
        raise UserError(f"{store.path} holds no records yet; ", TUNE, " adds them")
    candidates = candidates or Candidates()
    settings = []
    for target, timing, mine, known in _known(store, summaries, model):
        clock = Clock(moment for k in known for moment in k.moments)
        measured = peak[1] if peak is not None and peak[0] == target.key else None
        settings.append(_setting(target, timing, mine, [k.task(clock, candidates) for k in known], measured))
    if not settings:
        raise _nothing(store, model)
    name = model.name if model is not None else ""
    return data.Report(
        title=name or store.path.name,
        source=str(store.path),
        model=name,
        made=time.time(),
        versions=machine.versions(),
        settings=tuple(settings),
        kernels=_kernels(profile),
        race=tuple(race),
        skipped=tuple(store.skipped.most_common()),
        **(_machine(peak[1] if peak is not None and peak[0] == native().key else None) if profile is not None else {}),
    )


def standing(store: Store, model: Model) -> tuple[data.Setting, ...]:
    """How a model's tasks stand by an open record file, for each target and timing: figures alone, without curves and programs.

    Empty if the file has no record of any of them.
    """
    candidates = Candidates()
    return tuple(
        _setting(target, timing, mine, [k.brief(candidates) for k in known], None)
        for target, timing, mine, known in _known(store, store.workloads(), model)
    )


def _known(
    store: Store, summaries: Sequence[Summary], model: Model | None
) -> Iterator[tuple[Target, Timing, list[Summary], list[Known]]]:
    """Each setting of which there are records, with what is known there."""
    for target, timing, mine in _settings(summaries):
        computed = model.with_pairs(target.multiplies_pairs) if model is not None else None
        subjects = _subjects_of_model(computed) if computed is not None else _subjects(mine, target.multiplies_pairs)
        known = [Known(subject, store, target, timing) for subject in subjects]
        if not all(k.empty for k in known):
            yield target, timing, mine, known


def _nothing(store: Store, model: Model | None) -> UserError:
    if model is None:
        return UserError(f"no record of {store.path} can be used, for example: {next(iter(store.skipped), 'it is of no workload')}")
    return UserError(
        f"{store.path} has no record of any task of {model.name}; give the file that it was tuned with, and the shapes of that time"
    )


def of_profile(profile: Profile, race: Sequence[data.Runner] = (), peak: Mapping[str, float] | None = None) -> data.Report:
    """The report of a profile alone: where the time goes. `peak`: what was measured on this machine."""
    if not profile.steps:
        raise UserError(f"the profile of {profile.name} has no steps; there is nothing to report")
    return data.Report(
        title=profile.name,
        source="a profile",
        model=profile.name,
        made=time.time(),
        versions=machine.versions(),
        settings=(),
        kernels=_kernels(profile),
        race=tuple(race),
        **_machine(peak),
    )


def _settings(summaries: Sequence[Summary]) -> list[tuple[Target, Timing, list[Summary]]]:
    """Each target and timing of a search, with what is known there. Times of steps in networks go with the searches; where
    there are none, they stand for themselves."""
    machines: dict[tuple[str, int], list[Summary]] = {}
    for s in summaries:
        machines.setdefault((s.target.key, s.timing.threads), []).append(s)
    found = []
    for (_, threads), mine in machines.items():
        caches = dict.fromkeys(s.timing.cache for s in mine)
        for cache in [c for c in caches if c != IN_NETWORK] or list(caches):
            some = [s for s in mine if s.timing.cache in (cache, IN_NETWORK)]
            found.append((some[0].target, Timing(cache, threads), some))
    return found


def _setting(
    target: Target,
    timing: Timing,
    summaries: Sequence[Summary],
    tasks: Sequence[data.Task],
    peak: Mapping[str, float] | None,
) -> data.Setting:
    whole = sum(t.weight * (t.seconds or 0.0) for t in tasks)
    shared = [replace(t, share=t.weight * t.seconds / whole if whole and t.seconds else None) for t in tasks]
    return data.Setting(
        target=target.key,
        timing=str(timing),
        facts=machine.facts(target),
        roof=machine.roof(target, peak),
        first=min(s.first for s in summaries),
        last=max(s.last for s in summaries),
        tasks=tuple(sorted(shared, key=lambda t: -(t.share or 0.0))),
        totals=totals([(t.weight, t.points) for t in tasks]),
    )


def _subjects_of_model(model: Model) -> list[Subject]:
    return [Subject.of_model(t, t.formulations or formulations(t.workload)) for t in model.tasks()]


def _subjects(summaries: Sequence[Summary], pairs: bool) -> list[Subject]:
    """The workloads of a file; those that are other formulations of one among them go with that one."""
    workloads: dict[str, Workload] = {s.workload.key: s.workload for s in summaries}
    titles = {s.workload.key: s.title for s in summaries}
    options = {key: formulations(w, pairs) for key, w in workloads.items()}
    others = {f.workload.key for key, found in options.items() for f in found if f.workload.key != key}
    return [Subject(titles[key], w, options[key]) for key, w in workloads.items() if key not in others]


def _machine(peak: Mapping[str, float] | None) -> dict[str, Any]:
    """Roof and facts of the machine that this process runs on: a profile is of a running network."""
    here = native()
    return {"roof": machine.roof(here, peak), "facts": (("target", here.key), *machine.facts(here))}


def _kernels(profile: Profile | None) -> tuple[data.Kernel, ...]:
    if profile is None:
        return ()
    return tuple(data.Kernel(k.title, k.result, k.calls, k.seconds, k.share, k.flops, k.schedule, k.bytes) for k in profile.kernels)
