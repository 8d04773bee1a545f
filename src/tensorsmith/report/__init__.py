"""Reports: what a record file knows, as one HTML file to look at.

data         what a report says           changes      what differs between two candidates
collect      from records to the data     curves       trials in their order, improvements, the network's time
task         one task                     candidates   loops, explanations and forecasts of candidates
machine      facts, roof, versions        render       the page: `page/` and the plotting library in one file
watch        following a tuning
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tensorsmith.errors import UserError
from tensorsmith.graph.model import Model
from tensorsmith.records import Store
from tensorsmith.report.data import Report
from tensorsmith.runtime.profile import Profile
from tensorsmith.targets.target import native

__all__ = ["Report", "report"]


def report(
    source: str | Path | Profile,
    path: str | Path,
    *,
    model: Model | None = None,
    profile: Profile | None = None,
    peak: Mapping[str, float] | None = None,
) -> Report:
    """Writes a report to one HTML file that needs no network, and gives its data.

    `source` is a record file, or a profile (`exe.profile()`) by itself. With a `model`, tasks have the names and weights they have
    there. A `profile` besides says where the time goes in the running network. `peak` is what `measure_peak()` gave on this
    machine, for the roofline; without it the roof is estimated from the target's facts.
    """
    from tensorsmith.report import collect, render  # loaded by those who report, not by every worker and program

    if model is not None and not isinstance(model, Model):
        raise UserError(f"model is {model!r:.100}; give a Model, as `tensorsmith.load(path)` makes it")
    if profile is not None and not isinstance(profile, Profile):
        raise UserError(f"profile is {profile!r:.100}; give what `exe.profile()` gives")
    if isinstance(source, Profile):
        if model is not None or profile is not None:
            raise UserError(
                "a report of a profile takes no model and no other profile; give the record file first, and profile=..."
            )
        found = collect.of_profile(source, peak=peak)
    elif isinstance(source, (str, os.PathLike)):
        measured = None if peak is None else (native().key, peak)
        with Store.open(source, read_only=True) as store:
            found = collect.of_records(store, model=model, profile=profile, peak=measured)
    else:
        raise UserError(f"a report of {source!r:.100}? Give the path of a record file, or a profile")
    render.write(found, path)
    return found
