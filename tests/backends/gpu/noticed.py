"""How many faults of kernels the interpreter notices: a race, an access outside, a barrier that not all reach, or another answer.

python -m tests.backends.gpu.noticed [--seeds 3]
"""

from __future__ import annotations

import argparse

from tests.backends.gpu import faults
from tests.backends.gpu.drawn import KINDS, problems
from tests.backends.gpu.test_kernels import drawn, results

from tensorsmith.backends.gpu.simt.make import kernels
from tensorsmith.program.lower import lower


def noticed(name: str, seed: int, apart: bool = True) -> tuple[int, list[str]]:
    """Faults that were tried in a random candidate's kernels, and those that nobody noticed."""
    workload, candidate, inputs, want = drawn(name, seed)
    made = kernels(lower(candidate), apart)
    tried, missed = faults.noticed(made, lambda faulty: problems(workload, want, results(faulty, workload, inputs)))
    return tried, [f"{name}, seed {seed}: {what}" for what in missed]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    tried, missed = 0, []
    for name in KINDS:
        for seed in range(parser.parse_args().seeds):
            more, unseen = noticed(name, seed)
            tried, missed = tried + more, missed + unseen
            print(f"{name:<20} seed {seed}: {more - len(unseen)} of {more} noticed", flush=True)
    print(f"{tried - len(missed)} of {tried} noticed, {1 - len(missed) / tried:.1%}; not:", *missed, sep="\n  ")


if __name__ == "__main__":
    main()
