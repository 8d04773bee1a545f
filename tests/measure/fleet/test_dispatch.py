"""Who gets what: the dispatcher alone, told of nodes and times."""

from __future__ import annotations

from tensorsmith.measure.fleet.calibration import Peers
from tensorsmith.measure.fleet.dispatch import Dispatcher
from tensorsmith.measure.fleet.members import Item, Lease, Rules, State


def ready(*nodes: str, rules: Rules | None = None) -> Dispatcher:
    """A dispatcher with nodes that were calibrated alike at 0."""
    d = Dispatcher(rules)
    for node in nodes:
        d.called(node, 0.0)
        d.joined(node, 0.0)
    while (lease := d.next(0.0)) is not None:
        assert not lease.items
        d.returned(lease.number, (), 1.0, 0.0)
    return d


def items(count: int, group: int = 1, first: int = 1) -> list[Item]:
    return [Item(first + n, group) for n in range(count)]


def leases(d: Dispatcher, now: float = 1.0) -> list[Lease]:
    found = []
    while (lease := d.next(now)) is not None:
        found.append(lease)
    return found


def numbers(lease: Lease) -> list[int]:
    return [item.number for item in lease.items]


def test_everybody_gets_a_share_and_one_more_ahead() -> None:
    d = ready("a", "b", rules=Rules(batch=4, ahead=2))
    d.submit(items(16))
    found = leases(d)
    assert [(x.node, len(x.items)) for x in found] == [("a", 4), ("b", 4), ("a", 4), ("b", 4)]
    assert [n for x in found for n in numbers(x)] == list(range(1, 17))
    assert d.queued == 0 and d.open == 16


def test_few_candidates_are_shared_evenly() -> None:
    d = ready("a", "b", "c", rules=Rules(batch=8))
    d.submit(items(6))
    assert sorted(len(x.items) for x in leases(d)) == [2, 2, 2]


def test_what_a_dead_node_had_is_handed_out_first() -> None:
    d = ready("a", "b", rules=Rules(batch=4, ahead=1))
    d.submit(items(12))
    first, second = leases(d)
    outcome = d.lost("a", "the cable", 2.0)
    assert "a is lost: the cable; its 4 candidates are handed out again" in outcome.said
    d.returned(second.number, numbers(second), 1.0, 3.0)
    (again,) = leases(d, 3.0)
    assert again.node == "b" and numbers(again) == numbers(first)


def test_a_result_counts_once_whoever_brings_it() -> None:
    d = ready("a", "b", rules=Rules(batch=4, ahead=1, first=10.0))
    d.submit(items(4))
    slow, other = leases(d)
    assert d.returned(other.number, numbers(other), 1.0, 2.0).accepted == tuple(numbers(other))
    assert d.overdue(30.0) == []  # late, and helped
    (copy,) = leases(d, 30.0)
    assert copy.node == "b" and numbers(copy) == numbers(slow)
    assert d.returned(copy.number, numbers(copy), 1.0, 31.0).accepted == tuple(numbers(slow))
    assert d.returned(slow.number, numbers(slow), 1.0, 32.0).accepted == ()
    assert d.open == 0 and leases(d, 33.0) == []
    assert d.members["a"].kept == 0 and d.members["b"].kept == 4


def test_who_has_nothing_to_do_helps_sooner() -> None:
    """Ten seconds is late where all are busy; where one is idle, twice the usual time is."""
    d = ready("a", "b", rules=Rules(batch=4, ahead=1, late_floor=60.0))
    d.submit(items(12))
    slow, quick = leases(d, 0.0)
    d.returned(quick.number, numbers(quick), 1.0, 4.0)  # a second for each
    (third,) = leases(d, 4.0)
    assert d.overdue(9.0) == [] and not slow.copied  # nobody is idle
    d.returned(third.number, numbers(third), 1.0, 9.0)
    assert d.overdue(9.6) == [] and slow.copied
    (copy,) = leases(d, 9.6)
    assert copy.node == "b" and numbers(copy) == numbers(slow)


def test_what_waits_behind_a_late_lease_is_helped_too() -> None:
    d = ready("a", "b", rules=Rules(batch=2, ahead=2, first=10.0))
    d.submit(items(8))
    found = leases(d, 0.0)
    late = {n for x in found if x.node == "a" for n in numbers(x)}
    assert len(late) == 4
    for lease in (x for x in found if x.node == "b"):
        d.returned(lease.number, numbers(lease), 1.0, 5.0)
    d.overdue(30.0)
    copies = leases(d, 30.0)
    assert {x.node for x in copies} == {"b"} and {n for x in copies for n in numbers(x)} == late


def test_what_a_node_did_not_answer_is_handed_out_again() -> None:
    d = ready("a")
    d.submit(items(3))
    (lease,) = leases(d)
    assert d.returned(lease.number, [1, 3], 1.0, 2.0).accepted == (1, 3)
    (rest,) = leases(d, 3.0)
    assert numbers(rest) == [2]


def test_a_lease_of_a_node_that_was_given_up_counts_for_nothing() -> None:
    d = ready("a", "b")
    d.submit(items(2))
    first, _ = leases(d)
    d.lost(first.node, "silence", 2.0)
    assert d.returned(first.number, numbers(first), 1.0, 3.0).accepted == ()
    assert d.open == 2


def test_times_that_come_with_a_strange_calibration_are_not_believed() -> None:
    d = ready("a", "b", "c", rules=Rules(ahead=1))
    d.submit(items(3))
    found = leases(d)
    assert d.returned(found[0].number, numbers(found[0]), 3.0, 2.0).accepted == ()
    assert d.open == 3 and d.members["a"].state is State.READY and not d.members["a"].works
    (again,) = [x for x in leases(d, 2.0) if x.node == "a"]
    assert not again.items  # only calibrated
    outcome = d.returned(again.number, (), 3.0, 3.0)
    assert outcome.said == ("a is set apart: the calibration kernel took 3 times the time of its peers",)
    assert d.members["a"].state is State.APART
    assert "a" not in {x.node for x in leases(d, 4.0)}


def test_a_node_that_is_faster_than_its_peers_is_strange_too() -> None:
    d = ready("a", "b", "c", rules=Rules(doubts=1))
    d.submit(items(3))
    lease = leases(d)[0]
    assert d.returned(lease.number, numbers(lease), 0.5, 2.0).said == (
        "a is set apart: the calibration kernel took 2 times as fast as its peers",
    )


def test_a_node_that_was_first_and_alone_is_doubted_when_others_come() -> None:
    d = ready("slow")
    d.members["slow"].calibrations[0] = 3.0
    d._calibration.peers.put("slow", 3.0)
    d.submit(items(20))
    assert leases(d)[0].items  # nobody knows yet
    for node in ("a", "b"):
        d.called(node, 100.0)
        d.joined(node, 100.0)
        (lease,) = [x for x in leases(d, 100.0) if x.node == node]
        d.returned(lease.number, (), 1.0, 100.0)
    assert d.members["slow"].doubts == 1 and not d.members["slow"].works
    (first, second) = d.members["slow"].leases
    assert d.returned(first.number, numbers(first), 3.0, 101.0).said[0].startswith("slow is set apart")
    assert d.returned(second.number, numbers(second), 3.0, 102.0).accepted == ()
    assert d.open == 20


def test_nothing_is_handed_out_before_all_have_joined_or_are_late() -> None:
    d = ready("a", rules=Rules(gather=60.0))
    d.called("b", 0.0)
    d.submit(items(4))
    assert leases(d, 59.0) == []
    assert [x.node for x in leases(d, 61.0)] == ["a"]


def test_nobody_waits_for_a_node_that_comes_later() -> None:
    d = ready("a", rules=Rules(ahead=1))
    d.submit(items(20))
    (first,) = leases(d)
    d.called("b", 10.0)
    d.returned(first.number, numbers(first), 1.0, 11.0)
    assert [x.node for x in leases(d, 11.0)] == ["a"]


def test_silence_means_that_it_hangs() -> None:
    d = ready("a", "b", rules=Rules(silence=30.0))
    d.heard("a", 20.0)
    assert d.overdue(40.0) == [("b", "it hangs: it said nothing for 30 s")]


def test_a_node_that_never_answers() -> None:
    d = Dispatcher(Rules(joining=100.0))
    d.called("a", 0.0)
    assert d.overdue(99.0) == [] and d.overdue(101.0) == [("a", "it did not answer within 100 s")]


def test_one_that_lives_and_does_nothing_hangs_too() -> None:
    d = ready("a", rules=Rules(first=10.0, hopeless=3.0))
    d.submit(items(2))
    leases(d)
    d.heard("a", 29.0)
    assert d.overdue(30.0) == []
    d.heard("a", 32.0)
    assert d.overdue(32.0) == [("a", "it hangs: 2 candidates took more than 31 s")]


def test_a_lost_node_is_called_again_ever_more_slowly_and_then_given_up() -> None:
    d = ready("a", rules=Rules(pause=1.0, restarts=3))
    now, pauses, said = 0.0, [], []
    while d.members["a"].state is not State.GONE:
        said += d.lost("a", "again", now).said
        if d.members["a"].state is State.LOST:
            pauses.append(d.members["a"].retry - now)
            now = d.members["a"].retry
            assert d.to_call(now - 0.1) == [] and d.to_call(now) == ["a"]
            d.called("a", now)
    assert pauses == [1.0, 2.0, 4.0] and d.hopeless
    assert said == ["a is lost: again; it had nothing to do", "a is given up: again; it had nothing to do"]


def test_a_candidate_that_nodes_die_of_is_given_up_and_no_other() -> None:
    d = ready("a", rules=Rules(losses=2, restarts=9, batch=1, ahead=2))
    d.submit(items(2))
    assert [numbers(x) for x in leases(d)] == [[1], [2]]
    assert d.lost("a", "dead", 2.0).given_up == ()
    for now in (10.0, 20.0):
        d.called("a", now)
        d.joined("a", now)
        calibration = d.next(now)
        assert calibration is not None
        d.returned(calibration.number, (), 1.0, now)
        if now == 10.0:
            assert [numbers(x) for x in leases(d, now)] == [[1], [2]]
            assert d.lost("a", "dead", now).given_up == (1,)
    assert [numbers(x) for x in leases(d, 21.0)] == [[2]]


def test_what_may_be_to_blame_goes_alone_so_that_no_other_is_blamed() -> None:
    """Number 2 kills every node that has it; the others were only beside it."""
    d, now, accepted, given_up = ready("a", rules=Rules(batch=4, ahead=1, losses=3, restarts=99)), 0.0, [], []
    d.submit(items(4))
    while d.open:
        now += 1000.0
        for lease in leases(d, now):
            if 2 in numbers(lease):
                given_up += d.lost("a", "dead", now).given_up
                d.called("a", now)
                d.joined("a", now)
            else:
                accepted += d.returned(lease.number, numbers(lease), 1.0, now).accepted
    assert sorted(accepted) == [1, 3, 4] and given_up == [2]


def test_a_node_goes_on_with_what_it_is_set_up_for() -> None:
    d = ready("a", rules=Rules(batch=2, ahead=1))
    d.submit([*items(2, group=1), *items(4, group=2, first=10)])
    (first,) = leases(d)
    d.members["a"].groups.add(2)
    d.returned(first.number, numbers(first), 1.0, 2.0)
    assert [numbers(x) for x in leases(d)] == [[10, 11]]


def test_what_nobody_wants_any_more_is_not_handed_out() -> None:
    d = ready("a", rules=Rules(batch=2, ahead=1))
    d.submit(items(6))
    (lease,) = leases(d)
    d.drop([1, 3, 4])
    assert d.returned(lease.number, numbers(lease), 1.0, 2.0).accepted == (2,)
    assert [numbers(x) for x in leases(d)] == [[5, 6]]


def test_the_usual_time_is_the_lower_median() -> None:
    peers = Peers()
    assert peers.usual("a", 2.0) == 2.0
    peers.put("a", 1.0)
    assert peers.usual("b", 3.0) == 1.0 and peers.usual("b", 0.5) == 0.5 and peers.usual() == 1.0
    peers.put("b", 3.0)
    assert peers.usual("a", 4.0) == 3.0 and peers.usual("c", 3.0) == 3.0 and peers.usual() == 1.0
    peers.put("a", None)
    assert peers.usual() == 3.0
