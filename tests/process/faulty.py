"""`python -m tests.process.faulty FAULT SECONDS ARGUMENTS...`: the command line, with a fault of `faults.py` in its workers.

SECONDS is what one run of a candidate may take. With `TEST_FILE_BYTES`, the process cannot write longer files.
"""

from __future__ import annotations

import os
import resource
import sys
from dataclasses import replace
from pathlib import Path

from tensorsmith.cli import main
from tensorsmith.measure.limits import Limits
from tensorsmith.measure.measurer import Measurer


def inject(fault: str, seconds: float) -> None:
    """Every measurer made from now on has the fault in its workers."""
    original = Measurer.__init__
    hook = f"{Path(__file__).with_name('faults.py')}:{fault}"
    limits = replace(Limits(), run_floor=seconds, run_ceiling=seconds)

    def faulty(self, *arguments, **options) -> None:
        original(self, *arguments, **{**options, "hook": hook, "limits": limits})

    Measurer.__init__ = faulty


if __name__ == "__main__":
    inject(sys.argv[1], float(sys.argv[2]))
    if "TEST_FILE_BYTES" in os.environ:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(os.environ["TEST_FILE_BYTES"]), resource.RLIM_INFINITY))
    del sys.argv[1:3]
    main()
