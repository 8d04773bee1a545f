"""The kind of machine that a log's target is, and a target of ours with the limits that the search had."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tensorsmith.targets.target import Target

_GPUS = ("cuda", "rocm", "opencl", "vulkan", "metal", "opengl", "webgpu", "nvptx")


def kind_of(target: str) -> str:
    """ "gpu", "cpu" or "other", by the first word of TVM's text or of its JSON form, and by its keys."""
    words = re.findall(r"[a-z0-9_]+", target[:4096].lower())
    if any(w in _GPUS for w in words[:2]) or "gpu" in words:
        return "gpu"
    return "cpu" if words and (words[0] in ("llvm", "c") or "cpu" in words) else "other"


def architecture_of(target: str) -> str:
    """LLVM's name of a GPU's architecture where the text has it, `sm_80`."""
    found = re.search(r"-(?:arch|mcpu)=(\w+)", target)
    return found.group(1) if found else ""


def target_of(target: str, limits: Sequence[int]) -> Target:
    """A target with the facts that decide which sketches there are."""
    if kind_of(target) == "gpu":
        facts = {"threads": _limit(limits, 5, 1024), "warp": _limit(limits, 7, 32), "shared_bytes": _limit(limits, 3, 49152)}
        return Target.named("v100", **facts)
    return Target.named("x86-64-v2", cores=_limit(limits, 0, 4))


def _limit(limits: Sequence[int], place: int, otherwise: int) -> int:
    return limits[place] if place < len(limits) and 0 < limits[place] < 1 << 20 else otherwise
