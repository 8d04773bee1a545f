"""The options of `torch.compile(module, backend="tensorsmith", options={...})`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from tensorsmith.compile import BY_MODEL, builder, compile, database_path
from tensorsmith.errors import UserError
from tensorsmith.graph.graph import Graph
from tensorsmith.graph.model import Model
from tensorsmith.runtime.constants import Constants
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.variants.executable import KEEP
from tensorsmith.targets.host import check_threads
from tensorsmith.targets.target import native, on_threads

Effort = Literal["model", "quick", "normal", "thorough"]


@dataclass(frozen=True)
class Options:
    """`database` has the records to use. With `seconds` or `effort` a graph is tuned when it is first called, otherwise it is
    compiled with the records alone; with `effort` "model" it is too, and the pre-trained model chooses where there are none.
    `threads` is how many run it. Where shapes vary, each is compiled when it first comes, and the last `keep` stay."""

    database: str | Path | None = None
    seconds: float | None = None
    effort: Effort | None = None
    threads: int | None = None
    keep: int = KEEP

    @staticmethod
    def of(given: Mapping[str, Any] | None) -> Options:
        """The options of a call of `torch.compile`."""
        known = [field.name for field in dataclasses.fields(Options)]
        for name in given or ():
            if name not in known:
                raise UserError(f"the backend tensorsmith has no option {name!r}; it has {', '.join(known)}")
        options = Options(**(given or {}))
        options.check()
        return options

    @property
    def searching(self) -> bool:
        return self.seconds is not None or self.effort not in (None, BY_MODEL)

    def check(self) -> None:
        """Raises `UserError` for what cannot be: later, it would look like a graph that we cannot have."""
        check_threads(self.threads)
        if self.effort is not None and self.effort not in get_args(Effort):
            raise UserError(f"there is no effort {self.effort!r}; it is one of {', '.join(get_args(Effort))}")
        if self.seconds is not None and not (isinstance(self.seconds, int | float) and self.seconds >= 0):
            raise UserError(f"seconds is {self.seconds!r}; give a number, 0 or more")
        if isinstance(self.keep, bool) or not isinstance(self.keep, int) or self.keep < 1:
            raise UserError(f"keep is {self.keep!r}; give how many shapes are to stay compiled, at least 1")
        path = database_path(self.database)
        if path is not None and not self.searching and not path.exists():
            raise UserError(f"there is no database {path}; give 'seconds' or 'effort' as well, to tune and to make it")

    def build(self, graph: Graph, constants: Constants | None = None) -> Executable:
        """The executable of a graph. Those that are built with the same `constants` share what is packed alike."""
        model = Model.from_graph(graph)
        if not self.searching:
            if constants is not None:
                target = on_threads(native(), self.threads)
                return builder(self.database, target, constants=constants, effort=self.effort, threads=self.threads)(model)
            effort: Literal["model"] | None = "model" if self.effort == BY_MODEL else None
            return compile(model, database=self.database, effort=effort, threads=self.threads)
        from tensorsmith.tune import tune  # the search is loaded by those who search

        budget = None if self.effort == "model" else self.effort
        return tune(model, seconds=self.seconds, effort=budget, database=self.database, threads=self.threads)
