"""What people are shown of a node: what it does, or why it does nothing."""

from __future__ import annotations

from tensorsmith.measure.fleet.answers import Hello
from tensorsmith.measure.fleet.members import Member, State
from tensorsmith.measure.runner import NodeStatus


def status(member: Member, facts: Hello, queued: int, silent_because: str) -> NodeStatus:
    """`facts`: what the node said of itself. `queued`: candidates that no node has. `silent_because`: what its transport knows of
    nodes that do not answer."""
    held = sum(lease.weight for lease in member.leases)
    does = f"measures {held} candidates" if held else "is calibrated" if member.leases else ""
    why = member.why or ("" if does else _why_idle(member, queued, silent_because))
    return NodeStatus(
        name=member.name,
        state=member.state.value,
        does=does,
        why=why,
        target=facts.key,
        version=facts.version,
        trials=member.kept,
        load=facts.load,
        celsius=facts.celsius,
        calibration=member.typical,
        emulated=facts.emulated,
    )


def _why_idle(member: Member, queued: int, silent_because: str) -> str:
    if member.state is State.JOINING:
        return f"it was called and has not answered yet{silent_because}"
    if member.doubts:
        return "its calibration differs from its peers'; it is calibrated again"
    return "the others join first" if queued else "nothing is left to hand out: the search has not asked for more"
