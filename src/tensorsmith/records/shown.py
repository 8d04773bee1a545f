"""Lists of records, as they are shown: the best ones of a workload, or all there are."""

from __future__ import annotations

from tensorsmith.lang.flops import flops
from tensorsmith.records.record import Record
from tensorsmith.show.line import many
from tensorsmith.show.listed import Listed
from tensorsmith.show.table import Cell, Number, table
from tensorsmith.show.units import rate, time


class Records(Listed[Record]):
    """Records of one workload, target and timing."""

    def summary(self) -> str:
        if not self:
            return "of nothing"
        best = min((r.seconds for r in self if r.seconds is not None), default=None)
        return f"{self[0].workload.title} on {self[0].target.key}, {self[0].timing}: {many(len(self), 'record')}, best {time(best)}"

    def _repr_html_(self) -> str:
        columns = ("time", "to the best", "spread", "GFLOP/s", "status", "candidate", "decisions")
        best = min((r.seconds for r in self if r.seconds is not None), default=None)
        return table(columns, [_row(r, best) for r in self], title=self.summary(), sortable=True)


def _row(record: Record, best: float | None) -> list[Cell]:
    trial, seconds = record.trial, record.seconds
    at_least = "at least " if trial.at_least else ""
    relative = seconds / best if seconds and best else float("inf")
    operations = flops(record.workload)
    return [
        Number(seconds or float("inf"), f"{at_least}{time(seconds)}"),
        Number(relative, f"{relative:.2f}x" if seconds else "-"),
        Number(trial.spread, f"{trial.spread:.1%}" if seconds else "-"),
        Number(operations / seconds if seconds else 0.0, rate(operations, seconds)),
        trial.status.value + (f": {trial.cause}" if trial.cause else "") + (f" ({trial.note})" if trial.note else ""),
        record.key,
        " ".join(f"{hole}={value}" for hole, value in record.candidate.decisions.items()),
    ]
