"""Identifiers in the texts of kernels: all of our own making.

Tensors, stages and axes may be called anything: the names may come from a stranger's model, or be words of a language. None is
written into a text as it is. Arrays, variables and kernels have prefixes of their own: a tensor may be called `block`.
"""

from __future__ import annotations

import functools
import hashlib
import re

_LONGEST = 48  # characters of a name that an identifier shows


def variable_name(name: str) -> str:
    """The identifier of a loop's variable, or of another whole number that counts."""
    return f"v_{_identifier(name)}"


def array_name(name: str) -> str:
    """The identifier of an array."""
    return f"a_{_identifier(name)}"


def entry(name: str) -> str:
    """The identifier of a kernel."""
    return f"ts_{_identifier(name)}_kernel"


@functools.lru_cache(4096)
def _identifier(name: str) -> str:
    """What follows the prefix of an identifier: made by us, as a name may be a stranger's; names that differ still do.

    Words with single points or underscores between them are written out (`C.i_0` is `C_i__0`). Of all else only letters and digits
    are kept, with a digest that tells it apart.
    """
    if len(name) <= _LONGEST and re.fullmatch(r"[A-Za-z0-9]+([._][A-Za-z0-9]+)*", name):
        return name.replace("_", "__").replace(".", "_")
    kept = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")[:_LONGEST].rstrip("_")
    return f"{kept}___{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
