"""PyTorch's own samples of its operators (OpInfo, float32), through `ts.from_torch`.

    python benchmarks/torch_suite.py [--only abs,nn.functional.conv2d] [--most 60] [--all] [--json FILE]

Takes up to so many samples of each operator, from all over its list: of those that the tests name because an operator of our
table takes part in them (`tests/frontends/test_torch_operators.py`), or with `--all` of every one that PyTorch has samples of. A
sample is *right* if the reference evaluator gives what PyTorch gives, *refused* if the error says what is not supported, else
*wrong*. Prints every operator that is not all right, with the reasons, then the totals.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the samples are the tests'

from tests.frontends.test_torch_operators import SAMPLED
from tests.frontends.torch_samples import check, operators, samples

#: their results are random, or undefined
RANDOM = ("empty", "rand", "bernoulli", "dropout", "multinomial", "normal", "svd_lowrank", "pca_lowrank", "rrelu")


def main(words: Sequence[str] | None = None) -> int:
    """The exit status: 1 if a sample is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="operators, by their names in OpInfo")
    parser.add_argument("--most", type=int, default=60, help="samples of each operator")
    parser.add_argument("--all", action="store_true", help="every operator that PyTorch has samples of")
    parser.add_argument("--json")
    given = parser.parse_args(words)
    names = given.only.split(",") if given.only else names_of(given.all)
    found: dict[str, dict[str, int]] = {}
    totals: Counter[str] = Counter()
    for name in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch's, about its own samples
            outcome = check(samples(name, given.most))
        found[name] = {"right": outcome.right, "refused": len(outcome.refused), "wrong": len(outcome.wrong)}
        totals.update(found[name])
        if outcome.refused or outcome.wrong:
            refused = [f"  refused x{n}: {why}" for why, n in _counted(outcome.refused)]
            reasons = [*(f"  wrong: {w}" for w in outcome.wrong), *refused]
            print(f"{name}: {found[name]}", *reasons, sep="\n", flush=True)
    whole = sum(counts["right"] > 0 and not counts["refused"] and not counts["wrong"] for counts in found.values())
    some = sum(counts["right"] > 0 for counts in found.values())
    print(f"{len(found)} operators, {sum(totals.values())} samples: {dict(totals)}; all samples right: {whole}, some: {some}")
    if given.json:
        Path(given.json).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 1 if totals["wrong"] else 0


def names_of(everything: bool) -> list[str]:
    if not everything:
        return list(SAMPLED)
    return [name for name in operators() if not any(word in name for word in RANDOM)]


def _counted(reasons: Sequence[str]) -> list[tuple[str, int]]:
    return Counter(reason.splitlines()[0][:160] for reason in reasons).most_common()


if __name__ == "__main__":
    raise SystemExit(main())
