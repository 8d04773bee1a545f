"""The executable of one kernel as a network of one step, so that there is one file format."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorsmith.errors import UserError
from tensorsmith.runtime import jit
from tensorsmith.runtime.network import CONSTANT, INPUT, OUTPUT, Kernel, Network, NetworkExecutable, Place, Step

if TYPE_CHECKING:
    from tensorsmith.runtime.executable import Executable


def as_network(executable: Executable) -> NetworkExecutable:
    """The same code, inputs and outputs."""
    unbound = [a.name for a in executable.inputs if a.name in executable._packers]
    if unbound:
        raise UserError(
            f"{', '.join(unbound)} of {executable.name} must be bound before it can be saved: kernel.bind({unbound[0]}=...)"
        )
    if not isinstance(executable._keep, jit.Module):
        raise UserError(f"{executable.name} came without its object code, so it cannot be saved")
    constants: list[np.ndarray] = []
    places: list[Place] = []
    sizes: list[int] = []
    left = {a.name: n for n, a in enumerate(executable.inputs)}
    for a in executable._all_inputs:
        if a.name in left:
            places.append(Place(INPUT, left[a.name]))
            sizes.append(a.bytes)
        else:
            places.append(Place(CONSTANT, len(constants)))
            constants.append(executable._bound[a.name])
            sizes.append(constants[-1].nbytes)
    places += [Place(OUTPUT, n) for n in range(len(executable.outputs))]
    sizes += [a.bytes for a in executable.outputs]
    kernel = Kernel(
        executable.name,
        executable._keep,
        tuple(sizes),
        len(executable._all_inputs),
        executable._scratch_bytes,
        executable._scratch_bytes_per_thread,
    )
    step = Step(0, tuple(places))
    network = Network(executable.name, executable.inputs, executable.outputs, (kernel,), (step,), tuple(constants), 0)
    return NetworkExecutable(network)
