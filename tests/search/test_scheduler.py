"""The task scheduler against gradients computed by hand, and what it promises: who gets trials, and who gets none."""

from __future__ import annotations

from collections import Counter

import pytest

from tensorsmith.errors import UserError
from tensorsmith.search.objectives import GeometricMean, Objective, Targets, named, slopes, total, value
from tensorsmith.search.scheduler import Schedule, Scheduler, Strategy, TaskFacts

GREEDY = Schedule(epsilon=0.0)


def scheduler(*tasks: TaskFacts, objective: Objective = total, schedule: Schedule = GREEDY) -> Scheduler:
    return Scheduler(tasks, objective, schedule, seed=1)


def one(weight: float = 1, estimate: float = 1.0, flops: float = 0.0, group: object = None) -> TaskFacts:
    return TaskFacts((weight,), estimate, flops, group)


# -- the gradient, by hand ---------------------------------------------------------------------------------------------------


def test_the_guess_alone():
    """After t rounds, weight * 0.8 * -g / t: nothing is known yet of three rounds ago."""
    s = scheduler(one(weight=3), one(weight=1))
    s.tell(0, 16, 8.0)
    s.tell(1, 32, 10.0)
    assert s.gradients() == pytest.approx([-3 * 0.8 * 8.0, -0.8 * 10.0 / 2])


def test_the_past_counts_by_alpha():
    """10, 7, 6.5, 6, 5.5 after one to five rounds: in the last three it fell from 7 to 5.5."""
    s = scheduler(one(weight=2))
    for g in (10.0, 7.0, 6.5, 6.0, 5.5):
        s.tell(0, 16, g)
    assert s.gradients() == pytest.approx([2 * (0.2 * (5.5 - 7.0) / 3 + 0.8 * -5.5 / 5)])


def test_the_past_of_a_task_that_stands_still():
    """Rounds without an improvement are rounds too: three rounds ago it was as good as now."""
    s = scheduler(one())
    s.tell(0, 16, 4.0)
    for _ in range(4):
        s.tell(0, 16, 4.0)
    assert s.gradients() == pytest.approx([0.8 * -4.0 / 5])


def test_far_behind_a_similar_task():
    """The other makes 100 operations a second; within a factor 2 of that, 200 operations take 4 s instead of 10."""
    s = scheduler(one(flops=200, group="conv"), one(flops=300, group="conv"), one(flops=10_000, group="matmul"))
    s.tell(0, 160, 10.0)
    s.tell(1, 160, 3.0)
    s.tell(2, 160, 10.0)
    wanted = [0.8 * (2 * 200 / 100 - 10.0), 0.8 * -3.0 / 10, 0.8 * -10.0 / 10]
    assert s.gradients() == pytest.approx(wanted)


def test_what_a_bound_leaves_to_gain():
    """(10 - 9) / t is left; and though a similar task promises more, it cannot get below 9."""
    s = scheduler(one(flops=200, group="conv"), one(flops=300, group="conv"))
    s.tell(1, 16, 3.0)
    s.tell(0, 32, 10.0)
    s.tasks[0].bound = 9.0
    assert s.gradients()[0] == pytest.approx(0.8 * (9.0 - 10.0))
    alone = scheduler(one())
    alone.tell(0, 32, 10.0)
    alone.tasks[0].bound = 9.0
    assert alone.gradients() == pytest.approx([0.8 * -(10.0 - 9.0) / 2])


def test_trials_on_their_way_count():
    s = scheduler(one())
    s.tell(0, 16, 8.0)
    s.begin(0, 16)
    assert s.gradients() == pytest.approx([0.8 * -8.0 / 2])
    s.drop_pending(0)
    assert s.gradients() == pytest.approx([0.8 * -8.0])


def test_less_than_a_round_promises_no_more_than_all_of_it():
    s = scheduler(one())
    s.tell(0, 4, 8.0)
    assert s.gradients() == pytest.approx([0.8 * -8.0])


def test_a_task_shared_by_networks():
    """2 runs in the first network, 5 in the second."""
    s = scheduler(TaskFacts((2, 5), 1.0), TaskFacts((1, 0), 1.0))
    s.tell(0, 16, 1.0)
    s.tell(1, 16, 1.0)
    assert s.latencies() == [3.0, 5.0]
    assert s.gradients() == pytest.approx([-7 * 0.8, -0.8])


# -- objectives ---------------------------------------------------------------------------------------------------------------


def test_slopes():
    assert slopes(total, [2.0, 3.0]) == pytest.approx([1.0, 1.0])
    assert slopes(Targets((1.0, 5.0)), [2.0, 3.0]) == pytest.approx([1.0, 0.0])
    # -(B1 B2 / (x y))^(1/2): its derivative by x is (B1 B2 / (x y))^(1/2) / (2 x)
    assert slopes(GeometricMean((8.0, 27.0)), [2.0, 3.0]) == pytest.approx([6 / 4, 6 / 6], rel=1e-3)
    assert slopes(lambda x: x[0] * x[1], [2.0, 3.0]) == pytest.approx([3.0, 2.0])


def test_values():
    assert total([2.0, 3.0]) == 5.0
    assert Targets((1.0, 5.0))([2.0, 3.0]) == 7.0
    assert GeometricMean((8.0, 27.0))([2.0, 3.0]) == pytest.approx(-6.0)
    assert named("sum") is total and named("geomean")([2.0, 8.0]) == pytest.approx(-0.25)


def test_the_geometric_mean_prefers_what_is_a_larger_part_of_its_network():
    """2 of 2 seconds against 3 of 30."""
    tasks = (TaskFacts((1, 0), 2.0), TaskFacts((0, 1), 3.0), TaskFacts((0, 9), 3.0))
    by_sum, by_mean = scheduler(*tasks), scheduler(*tasks, objective=GeometricMean())
    for s in (by_sum, by_mean):
        s.tell(0, 16, 2.0)
        s.tell(1, 16, 3.0)
        s.tell(2, 1600, 3.0)
    assert by_sum.next() == (1, 16) and by_mean.next() == (0, 16)


def test_a_network_that_has_its_target_gets_no_more():
    s = scheduler(TaskFacts((1, 0), 1.0), TaskFacts((0, 1), 1.0), objective=Targets((20.0, 1.0)))
    s.tell(0, 16, 10.0)
    s.tell(1, 16, 1.5)
    assert s.gradients() == pytest.approx([0.0, -0.8 * 1.5])
    assert s.next() == (1, 16)
    s.tell(1, 16, 0.9)
    assert s.next() is None


def test_a_target_is_not_reached_by_estimates():
    s = scheduler(one(), objective=Targets((5.0,)))
    assert s.next() == (0, 4)


@pytest.mark.parametrize("wrong", ["nan", "text", None])
def test_a_function_that_gives_no_number(wrong):
    with pytest.raises(UserError, match="it has to give a finite number"):
        value(lambda latencies: float("nan") if wrong == "nan" else wrong, [1.0])  # type: ignore[return-value]


def test_bad_objectives():
    with pytest.raises(UserError, match="there is no objective 'fast'; give one of sum, geomean"):
        named("fast")
    with pytest.raises(UserError, match="a target latency is -1"):
        Targets((-1,))
    with pytest.raises(UserError, match="a reference latency is True"):
        GeometricMean((True,))
    with pytest.raises(UserError, match="2 target latencies for 1 networks"):
        Targets((1.0, 2.0))([1.0])
    with pytest.raises(UserError, match="there is no scheduling strategy 'random'; it is one of gradient, round-robin"):
        Schedule(strategy="random")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="round of the schedule is 0; give a whole number, 1 or more"):
        Schedule(round=0)
    with pytest.raises(UserError, match="epsilon of the schedule is 2; give a share, from 0 to 1"):
        Schedule(epsilon=2)
    with pytest.raises(UserError, match="2 target latencies for 1 networks"):
        scheduler(one(), objective=Targets((1.0, 2.0)))


# -- choices --------------------------------------------------------------------------------------------------------------------


def test_the_warm_up_goes_by_share_and_skips_what_does_not_matter():
    s = scheduler(one(weight=2, estimate=1.0), one(estimate=5.0), one(weight=10, estimate=1e-4))
    assert s.next() == (1, 4)
    s.begin(1, 4)
    assert s.next() == (0, 4)
    s.tell(1, 4, 5.0)
    s.tell(0, 4, 1.0)
    assert s.cold() == [] and s.next() == (1, 16)


def test_an_estimate_is_seen_in_proportion_to_what_is_measured():
    """What is measured takes three times its estimate, so the other is expected to as well."""
    s = scheduler(one(estimate=1.0), one(weight=2, estimate=4.0))
    s.tell(0, 4, 3.0)
    assert s.seconds(1) == 12.0 and s.latencies() == [27.0]


def test_what_was_measured_before_needs_no_warm_up():
    s = scheduler(one(), one())
    s.tell(0, 100, 1.0)
    assert s.next() == (1, 4)


def test_a_task_at_its_bound_is_left_alone_until_the_bound_falls():
    s = scheduler(one(weight=100), one())
    s.tell(0, 16, 1.02)
    s.tell(1, 16, 1.0)
    s.tasks[0].bound = 1.0
    assert not s.can_gain(0) and s.next() == (1, 16)
    s.tasks[0].bound = 0.9
    assert s.next() == (0, 16)


def test_nothing_left_to_gain():
    s = scheduler(one(), one())
    s.tell(0, 16, 1.0)
    s.tasks[0].bound = 1.0
    s.exhaust(1)
    assert s.next() is None


def test_a_task_that_does_not_improve_is_stopped():
    """The paper's fourth objective. 1 % is not enough of an improvement."""
    s = scheduler(one(weight=100), one(), schedule=Schedule(epsilon=0.0, patience=32))
    s.tell(1, 16, 1.0)
    s.tell(0, 16, 2.0)
    s.tell(0, 16, 1.99)
    assert s.next() == (0, 16)
    s.tell(0, 16, 1.985)
    assert not s.can_gain(0) and s.next() == (1, 16)


def test_no_task_that_can_gain_starves():
    """One task has nearly all of the time, and never improves."""
    s = scheduler(one(weight=1000), one(weight=10), one(weight=1))
    given: Counter[int] = Counter()
    for _ in range(3000):
        task, count = s.next() or (0, 0)
        given[task] += 1
        s.tell(task, count, 1.0)
    assert given[1] >= 10 and given[2] >= 1  # rounds in proportion to what is at stake
    explored = Scheduler([one(weight=1e9), one()], schedule=Schedule(epsilon=0.1), seed=0)
    given = Counter()
    for _ in range(400):
        task, count = explored.next() or (0, 0)
        given[task] += 1
        explored.tell(task, count, 1.0)
    assert 5 <= given[1] <= 60


def test_of_two_that_stand_alike_the_one_that_gained_goes_on():
    for gaining in (0, 1):
        s = scheduler(one(), one())
        for seconds in (9.0, 8.0, 7.0, 6.0, 5.0):
            s.tell(gaining, 16, seconds)
            s.tell(1 - gaining, 16, 5.0)
        assert s.next() == (gaining, 16)


def simulated(strategy: Strategy, rounds: int = 30) -> tuple[Counter[int], float]:
    """Rounds that each of three tasks got, and the seconds of all in the end. Only the second one gains by trials."""
    curves = ([5.0] * (rounds + 1), [30.0 - n for n in range(rounds + 1)], [5.0] * (rounds + 1))
    s = Scheduler([one(estimate=10.0)] * 3, schedule=Schedule(strategy, epsilon=0.05, warm_up=16), seed=2)
    given: Counter[int] = Counter()
    for _ in range(rounds):
        task, count = s.next() or (0, 0)
        s.tell(task, count, curves[task][given[task]])
        given[task] += 1
    return given, s.value()


def test_the_task_that_gains_gets_most_and_each_gets_some():
    given, seconds = simulated("gradient")
    assert given[1] > given[0] + given[2] and min(given.values()) >= 2
    in_turn, behind = simulated("round-robin")
    assert max(in_turn.values()) - min(in_turn.values()) <= 1 and seconds < behind


def test_round_robin():
    s = scheduler(one(weight=9), one(), one(), schedule=Schedule("round-robin", warm_up=1))
    for n in range(3):
        s.tell(n, 1, 1.0)
    s.exhaust(1)
    order = []
    for _ in range(4):
        task, count = s.next() or (0, 0)
        s.tell(task, count, 1.0)
        order.append(task)
    assert order == [0, 2, 0, 2]


def test_a_task_of_which_nothing_works_does_not_hold_up_the_others():
    s = scheduler(one(weight=2), one())
    s.tell(1, 16, 1.0)
    given: Counter[int] = Counter()
    for _ in range(30):
        task, count = s.next() or (0, 0)
        given[task] += 1
        s.tell(task, count, None if task == 0 else 1.0)
    assert given[0] > 5 and given[1] > 5


def test_the_same_seed_gives_the_same_choices():
    def choices(seed: int) -> list[int]:
        s = Scheduler([one(), one(), one()], schedule=Schedule(epsilon=0.5), seed=seed)
        found = []
        for _ in range(40):
            task, count = s.next() or (0, 0)
            s.tell(task, count, 1.0)
            found.append(task)
        return found

    assert choices(1) == choices(1) != choices(2)


def test_a_time_that_was_luck_is_corrected():
    """Without trials, a worse best takes the place of the one before, also in the past that gradients look at."""
    s = scheduler(one())
    for g in (10.0, 1.0, 1.0, 1.0, 1.0):
        s.tell(0, 16, g)
    s.tell(0, 0, 8.0)
    assert s.seconds(0) == 8.0 and s.tasks[0].trials == 80
    assert s.gradients() == pytest.approx([0.8 * -8.0 / 5])
    s.tell(0, 16, 7.0)
    assert s.seconds(0) == 7.0 and s.tasks[0].unimproved == 0
