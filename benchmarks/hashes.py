"""Fingerprints of generated code: what a change of the package's inside must leave as it is.

    python benchmarks/hashes.py [--only C2D] [--json FILE] [--against FILE]

For the catalogue's cases at batch 1 and 16: the machine code of the default schedule, and for 200 candidates drawn at random with a
fixed seed their machine code and their features. Always for the same named machine, whatever this one is. Nothing is run.
`--against` compares with the JSON file of an earlier run, lists what differs, and ends with status 1 if anything does.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tensorsmith.backends import space_of
from tensorsmith.backends.cpu.codegen.generate import generate
from tensorsmith.backends.cpu.default import default_candidate
from tensorsmith.backends.cpu.features.extract import extract
from tensorsmith.backends.cpu.llvm import compile_ir
from tensorsmith.backends.cpu.target import CpuTarget
from tensorsmith.errors import Refusal
from tensorsmith.ops import catalogue
from tensorsmith.program.lower import lower
from tensorsmith.rewrites.formulations import likely
from tensorsmith.space.population.sampling import sample
from tensorsmith.space.sketch.sketch import Candidate

CANDIDATES = 200
SEED = 14
MACHINE = CpuTarget(
    triple="x86_64-unknown-linux-gnu",
    cpu="znver3",
    features="+avx,+avx2,+fma,+f16c,+bmi,+bmi2",
    vector_bytes=32,
    vector_registers=16,
    l1_bytes=32 << 10,
    l1_ways=8,
    l2_bytes=512 << 10,
    l3_bytes=32 << 20,
    line_bytes=64,
    cores=2,
)


def fingerprint(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def code(candidate: Candidate) -> str:
    """Of a candidate's machine code, or why there is none."""
    try:
        return fingerprint(compile_ir(generate(lower(candidate), MACHINE).ir, MACHINE).data)
    except Refusal as refusal:
        return f"refused: {refusal}"


def features(candidate: Candidate) -> str:
    try:
        return fingerprint(np.ascontiguousarray(extract(lower(candidate), MACHINE).values, np.float64).tobytes())
    except Refusal as refusal:
        return f"refused: {refusal}"


def drawn(name: str, count: int) -> Iterator[Candidate]:
    """Random candidates of a case, the same every time."""
    space = space_of(catalogue.get(name).workload(), MACHINE)
    rng = np.random.default_rng([SEED, *name.encode()])
    everyone = list(space.candidates(sample(space, 8 * len(space.plans), rng)))
    for n in rng.choice(len(everyone), count, replace=False):
        yield everyone[n]


def fingerprints(names: list[str], counts: dict[str, int]) -> Iterator[tuple[str, str]]:
    for name in names:
        workload = catalogue.get(name).workload()
        yield f"{name} default", code(default_candidate(likely(workload).workload, MACHINE))
        for n, candidate in enumerate(drawn(name, counts[name])):
            yield f"{name} candidate {n}", code(candidate)
            yield f"{name} features {n}", features(candidate)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose names begin so")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--against", type=Path, help="the JSON file of an earlier run")
    given = parser.parse_args()
    everything = [name for batch in (1, 16) for name in catalogue.cases(batch)]
    counts = {name: CANDIDATES // len(everything) + (n < CANDIDATES % len(everything)) for n, name in enumerate(everything)}
    names = [name for name in everything if name.startswith(given.only)]
    found = {}
    for what, value in fingerprints(names, counts):
        found[what] = value
        print(value, what, flush=True)
    print(fingerprint(json.dumps(found).encode()), f"all {len(found)}")
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    if given.against:
        before = json.loads(given.against.read_text())
        changed = [what for what, value in found.items() if before.get(what) != value]
        print(f"{len(changed)} of {len(found)} differ from {given.against}", *changed, sep="\n")
        sys.exit(1 if changed else 0)


if __name__ == "__main__":
    main()
