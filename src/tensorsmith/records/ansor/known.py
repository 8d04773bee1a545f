"""Which definitions a function's name may stand for: by the very name, else by the words in it.

The same name has been given to functions with other orders of arguments. So a name stands for several definitions, the likeliest
first; the steps of a program tell which of them it is, because every split has the extent of its axis.
"""

from __future__ import annotations

import functools
import re

from tensorsmith.records.ansor import layers
from tensorsmith.records.ansor.layers import Definition

_THAT_SAY_WHOSE = ("layer", "ansor", "auto", "scheduler", "autoscheduler", "test", "tvm", "op", "expr", "")


def _by_rank(word: str, *definitions: Definition) -> tuple[Definition, ...]:
    """The definitions for one, two or three dimensions, those of the number in the name first."""
    ranks = sorted((2, 3, 1), key=lambda rank: f"{rank}d" not in word)
    return tuple(functools.partial(d, rank) for rank in ranks for d in definitions)


_PRODUCTS = (layers.matmul, layers.matmul_of_tests, layers.dense, layers.dense_of_three)
_NAMED: dict[str, tuple[Definition, ...]] = {
    "matmul_auto_scheduler_test": (layers.matmul_of_tests,),
    "conv2d_nchw_bn_relu_auto_scheduler_test": (layers.conv_of_tests,),
    "max_pool2d_auto_scheduler_test": (layers.max_pool_of_tests,),
    "min_nm_auto_scheduler_test": (layers.least,),
    "double_matmul_auto_scheduler_test": (layers.double_matmul,),
    "ansor_pool2d": (layers.pool2d,),
}

#: what is looked for in a name, and the definitions; the first that is found counts
_WORDS: tuple[tuple[str, tuple[Definition, ...]], ...] = (
    ("depth|dw", (layers.depthwise, layers.square_depthwise)),
    ("transpose|deconv", (layers.transposed,)),
    ("max_?pool", (functools.partial(layers.pool, "max"), functools.partial(layers.square_pool, "max"))),
    ("(avg|average)_?pool", (functools.partial(layers.pool, "avg"), functools.partial(layers.square_pool, "avg"))),
    ("pool", (layers.pool, layers.square_pool)),
    ("batch|bmm", (layers.batch_matmul, layers.batch_matmul_transposed)),
    ("dense|fc|linear", (layers.dense, layers.dense_of_three, layers.matmul, layers.matmul_of_tests)),
    ("mat_?mul|gemm|mm$|^mm", _PRODUCTS),
    ("softmax", (layers.softmax,)),
    ("reduc|^sum", (layers.reduction,)),
    ("relu|elem", (layers.elementwise,)),
    ("^add", (functools.partial(layers.of_two, "add"),)),
    ("^mul", (functools.partial(layers.of_two, "mul"),)),
)
_FOLLOWED = "depth|dw|transpose|deconv|batch|bmm|dense|fc|linear|mat_?mul|gemm|mm$|^mm|conv"  # layers that may have an epilogue


def definitions_of(name: str) -> tuple[Definition, ...]:
    """The definitions that a function's name may stand for, the likeliest first."""
    if name in _NAMED:
        return _NAMED[name]
    word = plain(name)
    for pattern, found in _WORDS:
        if re.search(pattern, word):
            return found
    return _by_rank(word, layers.convolution, layers.square_convolution) if "conv" in word else ()


def may_be_followed(name: str) -> bool:
    """Whether a layer of that name may have additions and relu behind it, which the key does not tell."""
    return name not in _NAMED and re.search(_FOLLOWED, plain(name)) is not None


def plain(name: str) -> str:
    """A function's name without the words that say whose it is: `ansor_mm`, `matmul_layer`, `conv2d_auto_scheduler_test`."""
    return "_".join(w for w in re.split(r"[^a-z0-9]+", name.lower()[:200]) if w not in _THAT_SAY_WHOSE)
