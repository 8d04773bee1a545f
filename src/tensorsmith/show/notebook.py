"""Whether this process serves a notebook, and something shown there that changes. IPython is used where it runs, never needed."""

from __future__ import annotations

import sys
from typing import Any


def in_notebook() -> bool:
    """Whether output goes to a notebook: a kernel of Jupyter's, not IPython in a terminal."""
    interactive: Any = sys.modules.get("IPython")  # who runs in a notebook has it loaded
    shell = None if interactive is None else interactive.get_ipython()
    return getattr(shell, "kernel", None) is not None


class Display:
    """A piece of HTML in the output of a cell; `show` again puts another one in its place."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, html: str) -> None:
        from IPython.display import HTML, display  # of a notebook: it is there

        if self._handle is None:
            self._handle = display(HTML(html), display_id=True)
        else:
            self._handle.update(HTML(html))
