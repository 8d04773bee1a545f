"""The options of `torch.compile(module, backend="tensorsmith", options={...})`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tensorsmith.compile import builder, compile
from tensorsmith.errors import UserError
from tensorsmith.graph.graph import Graph
from tensorsmith.graph.model import Model
from tensorsmith.runtime.constants import Constants
from tensorsmith.runtime.executable import Executable
from tensorsmith.runtime.pool import with_threads
from tensorsmith.runtime.variants.executable import KEEP
from tensorsmith.targets.target import native


@dataclass(frozen=True)
class Options:
    """`database` has the records to use. With `seconds` or `effort` a graph is tuned when it is first called, otherwise it is
    compiled with the records alone. `threads` is how many run it. Where shapes vary, each is compiled when it first comes, and the
    last `keep` stay."""

    database: str | Path | None = None
    seconds: float | None = None
    effort: Literal["quick", "normal", "thorough"] | None = None
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
        if options.threads is not None and (not isinstance(options.threads, int) or options.threads < 1):
            raise UserError(f"threads is {options.threads!r}; give a whole number of at least 1")
        if isinstance(options.keep, bool) or not isinstance(options.keep, int) or options.keep < 1:
            raise UserError(f"keep is {options.keep!r}; give how many shapes are to stay compiled, at least 1")
        return options

    def build(self, graph: Graph, constants: Constants | None = None) -> Executable:
        """The executable of a graph. Those that are built with the same `constants` share what is packed alike."""
        model = Model.from_graph(graph)
        target = native() if self.threads is None else native().with_facts(cores=self.threads)
        if self.seconds is None and self.effort is None:
            if constants is not None:
                return builder(self.database, target, constants=constants)(model)
            return compile(model, database=self.database, target=target)
        from tensorsmith.tune import tune  # the search is loaded by those who search

        return tune(model, seconds=self.seconds, effort=self.effort, database=self.database, target=target)

    def running(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """A function that runs with the threads asked for."""
        if self.threads is None:
            return run

        def limited(*args: Any) -> Any:
            with with_threads(self.threads):
                return run(*args)

        return limited
