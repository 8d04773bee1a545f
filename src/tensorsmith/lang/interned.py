"""Nodes of which there is only one of a kind: making one that is there already gives the one that is there."""

from __future__ import annotations

import threading
import weakref
from typing import Any

_lock = threading.Lock()
_nodes: weakref.WeakValueDictionary[tuple[Any, ...], Any] = weakref.WeakValueDictionary()  # forgets what nobody uses


class Interned(type):
    """The type of classes whose instances are immutable, and the same object if they have the same content."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__call__(*args, **kwargs)
        # numbers count as they are written: NaN is NaN here, 0.0 is not -0.0, and 1 is neither 1.0 nor True
        content = tuple(repr(v) if isinstance(v, (float, bool)) else v for v in vars(made).values())
        with _lock:
            return _nodes.setdefault((cls, *content), made)
