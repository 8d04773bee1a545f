"""Why a candidate should be fast or slow on a GPU, in words: the features and the prior, for people."""

from __future__ import annotations

from tensorsmith.backends.gpu.features.extract import extract_rows
from tensorsmith.backends.gpu.prior import estimate
from tensorsmith.backends.gpu.target import GpuTarget
from tensorsmith.show.units import size
from tensorsmith.show.units import time as duration
from tensorsmith.space.sketch.sketch import Candidate


def explain(candidate: Candidate, target: GpuTarget) -> str:
    """What every kernel of a candidate does to the machine, and what it is estimated to cost."""
    (matrix,) = extract_rows([(candidate.sketch, candidate.decisions)], target).matrices()
    guess = estimate(matrix, target)
    total = float(guess.seconds.sum())
    lines = [f"estimated: {duration(total)} on {target.name} ({len(matrix.stages)} kernels); nothing was measured"]
    for n, stage in enumerate(matrix.stages):

        def v(name: str, n: int = n) -> float:
            return float(matrix.raw(name)[0, n])

        share = float(guess.seconds[0, n]) / total
        lines += ["", f"{stage}: {duration(float(guess.seconds[0, n]))}, {share:.0%} of it; bound by {guess.tightest(0, n)}"]
        facts = {
            "launch": f"{v('blocks'):,.0f} blocks of {v('threads'):.0f} threads, {v('virtual_threads'):.0f} virtual ones each",
            "waves": f"{v('waves'):,.0f} of {v('blocks_resident'):.0f} blocks on a multiprocessor, "
            f"{v('occupancy'):.0%} of its warps; {v('tail_useful'):.0%} of the places used",
            "registers": f"{v('registers'):.0f} of {target.registers_per_thread} for {v('results'):.0f} results"
            + (f", {v('spilled_share'):.0%} of these spilled" if v("spilled_share") else ""),
            "shared": f"{size(round(v('shared_bytes')))} of {size(target.shared_bytes)}, {v('rounds'):,.0f} rounds, "
            f"{v('conflict_degree'):.1f} wavefronts an access",
            "loads": f"{v('coalescing'):.0%} of the bytes that they bring are used; "
            f"{v('operations_per_shared_load'):.1f} multiply-adds for each load of shared memory",
            "traffic": f"{size(round(v('l2_bytes')))} through the second cache, {size(round(v('memory_bytes')))} of memory",
        }
        lines += [f"  {what:<10} {text}" for what, text in facts.items()]
        causes = {**guess.bounds, **guess.waits}
        largest = sorted(causes, key=lambda k: -float(causes[k][0, n]))[:4]
        lines.append("  cycles     " + ", ".join(f"{name} {float(causes[name][0, n]):,.0f}" for name in largest))
    return "\n".join(lines)
