"""A network with open dimensions: a fixed one for every size that is asked for."""

from __future__ import annotations

import copy
import itertools
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from tensorsmith.errors import UserError
from tensorsmith.graph.model import Model
from tensorsmith.runtime.variants.symbols import OpenArgument, Sizes, check_size, named_sizes, shown, symbols_of
from tensorsmith.show.line import cut, line, many, plain
from tensorsmith.show.table import block, table

if TYPE_CHECKING:
    from tensorsmith.runtime.variants.executable import OpenExecutable

_MOST_NAMED = 64  # variants that are compiled at once, and tuned together
_SHOWN = 48  # characters of a line for the named sizes
_REMEMBERED = 2  # models: who proves something about a size and who compiles it ask for the same one


class OpenModel:
    """A network whose inputs have open dimensions. `ts.compile(model)` makes an executable for any sizes; `named` are those that it
    compiles at once, and that `ts.tune(model)` tunes, all in one run."""

    def __init__(
        self,
        name: str,
        inputs: Sequence[OpenArgument],
        sizes: Mapping[str, Sequence[int]],
        make: Callable[[Mapping[str, int]], Model],
        draws: bool = False,
    ) -> None:
        """`sizes` are those that the user names for each symbol, none where any may come; `make` gives the network at some. It may
        draw random numbers, as `draws` says."""
        self.name, self.inputs, self.draws = name, tuple(inputs), draws
        self.symbols = symbols_of(self.inputs)
        self.sizes = {symbol: checked_sizes(symbol, sizes.get(symbol, ())) for symbol in self.symbols}
        self._check_count()
        self._make = make
        self._made: dict[Sizes, Model] = {}
        self._lock = threading.Lock()

    @property
    def named(self) -> tuple[Sizes, ...]:
        """All combinations of the sizes that were named; none if those of one dimension were not."""
        return tuple(itertools.product(*self.sizes.values()))

    def with_sizes(self, **sizes: Sequence[int]) -> OpenModel:
        """The same model with these sizes named: `model.with_sizes(batch=[1, 8, 32])`."""
        unknown = [name for name in sizes if name not in self.symbols]
        if unknown:
            raise UserError(f"there is no open dimension {unknown[0]!r}; there is {', '.join(self.symbols)}")
        named = copy.copy(self)
        named.sizes = {symbol: checked_sizes(symbol, sizes.get(symbol, known)) for symbol, known in self.sizes.items()}
        named._check_count()
        return named

    def with_weights(self, weights: str | None) -> OpenModel:
        """The same model with its weights stored in fewer bits, as `Model.with_weights` does it."""
        made, make = copy.copy(self), self._make
        made._make, made._made = (lambda sizes: make(sizes).with_weights(weights)), {}
        return made

    def at(self, **sizes: int) -> Model:
        """The model with all dimensions fixed: `model.at(batch=8)`."""
        return self.model(named_sizes(self.symbols, sizes))

    def model(self, sizes: Sizes) -> Model:
        """The model at sizes in the order of the symbols. The last few are remembered."""
        with self._lock:
            if sizes not in self._made:
                made = self._make(dict(zip(self.symbols, sizes)))
                made.source = replace(made.source, name=f"{self.name}[{shown(self.symbols, sizes)}]")
                while len(self._made) >= _REMEMBERED:
                    del self._made[next(iter(self._made))]
                self._made[sizes] = made
            return self._made[sizes]

    def _check_count(self) -> None:
        count = math.prod(len(found) for found in self.sizes.values())
        if count > _MOST_NAMED:
            raise UserError(
                f"{count} combinations of sizes are named; name at most {_MOST_NAMED}, others are compiled when they come"
            )

    def presented(self, executable: OpenExecutable) -> OpenExecutable:
        """An executable of this model as its callers want it, as for `Model`."""
        return executable

    def __str__(self) -> str:
        named = "; ".join(shown(self.symbols, sizes) for sizes in self.named)
        lines = [self._signature(), f"open: {', '.join(self.symbols)}; named sizes: {named or 'none'}"]
        return "\n".join(map(plain, lines))

    def __repr__(self) -> str:
        return line(self, self._signature(), f": {cut(' '.join(map(self._named, self.symbols)), _SHOWN)}")

    def _repr_html_(self) -> str:
        inputs = table(("input", "type"), [(a.name, a.type) for a in self.inputs])
        named = table(("open dimension", "named sizes"), [(d, ", ".join(map(str, n)) or "none") for d, n in self.sizes.items()])
        return block(self._signature(), inputs + named, f"{many(len(self.named), 'variant')} to compile at once")

    def _signature(self) -> str:
        return f"{self.name}({', '.join(map(str, self.inputs))})"

    def _named(self, symbol: str) -> str:
        """`batch=1,8,32`, or `batch=?`: as the command line takes it."""
        return f"{symbol}={','.join(map(str, self.sizes[symbol])) or '?'}"

    def __reduce__(self) -> NoReturn:
        at = ", ".join(f"{symbol}=8" for symbol in self.symbols)
        raise UserError(
            f"{self.name} makes a network for any size, so it cannot be pickled; load it again there, pickle model.at({at}), "
            "or compile it and use save()"
        )

    def __copy__(self) -> OpenModel:
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def __deepcopy__(self, memo: dict[int, object]) -> OpenModel:
        """What makes networks cannot be changed, and is shared."""
        return copy.copy(self)


def checked_sizes(symbol: str, given: Sequence[int]) -> tuple[int, ...]:
    """Sizes that a user names for a symbol, each once."""
    return tuple(dict.fromkeys(check_size(symbol, n) for n in given))
