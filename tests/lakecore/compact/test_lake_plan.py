"""Units of many tables are handed out fairly, each once; plans that are held fit into their budget."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from lakecore.compact.pool.plan import Admission, FairQueue, QueuedUnit

TABLES = st.lists(st.lists(st.integers(1, 2_000_000), min_size=1, max_size=12), min_size=1, max_size=6)


def filled(tables: list[list[int]]) -> FairQueue:
    queue = FairQueue()
    for stream, costs in enumerate(tables):
        queue.add([QueuedUnit(stream, number, cost) for number, cost in enumerate(costs)])
    return queue


@given(TABLES, st.integers(1, 16))
def test_every_unit_is_handed_out_once_and_in_the_order_of_its_table(
    tables: list[list[int]], slots: int
) -> None:
    queue = filled(tables)
    taken = []
    while task := queue.take(slots):
        assert len(task) == 1 or sum(unit.cost for unit in task) <= 500_000
        taken += task
    assert len(queue) == 0
    for stream, costs in enumerate(tables):
        assert [unit.number for unit in taken if unit.stream == stream] == list(range(len(costs)))


@given(TABLES, st.integers(1, 16))
def test_tables_that_wait_are_given_equal_shares(tables: list[list[int]], slots: int) -> None:
    queue, given_to, left = filled(tables), Counter[int](), [len(costs) for costs in tables]
    largest = max(max(costs) for costs in tables)
    while task := queue.take(slots):
        for unit in task:
            waiting = [stream for stream, count in enumerate(left) if count]
            assert given_to[unit.stream] == min(given_to[stream] for stream in waiting)
            given_to[unit.stream] += unit.cost
            left[unit.stream] -= 1
            assert all(given_to[unit.stream] - given_to[stream] <= largest for stream in waiting)


def test_a_small_table_that_comes_late_does_not_wait_for_a_huge_one() -> None:
    queue = FairQueue()
    queue.add([QueuedUnit(1, number, 1_000_000) for number in range(100)])
    for _ in range(40):
        queue.take(2)
    queue.add([QueuedUnit(2, 0, 50)])
    order = [unit.stream for _ in range(3) for unit in queue.take(2)]
    assert order.index(2) <= 1
    assert queue.drop(1) == 60 - (3 - 1)
    assert queue.take(2) == ()


def test_small_units_share_a_task_unless_slots_would_idle_or_one_must_be_alone() -> None:
    queue = FairQueue()
    queue.add([QueuedUnit(stream, 0, 20_000) for stream in range(64)])
    assert len(queue.take(2)) == 25  # 500,000 rows at most
    queue = FairQueue()
    queue.add([QueuedUnit(stream, 0, 20_000, alone=stream == 1) for stream in range(4)])
    assert [len(queue.take(2)) for _ in range(4)] == [1, 1, 1, 1]


@given(st.lists(st.integers(0, 150), min_size=1, max_size=30), st.data())
def test_plans_held_at_once_fit_into_the_budget_or_are_one(sizes: list[int], data: st.DataObject) -> None:
    admission = Admission(100)
    inside: list[int] = []
    entered: list[int] = []
    for who, size in enumerate(sizes):
        admission.ask(who, size)
        while True:
            entered += [one for one in range(who + 1) if admission.is_in(one) and one not in entered]
            inside = [one for one in entered if admission.is_in(one)]
            assert inside, "somebody is always let in"
            assert admission.admitted_size == sum(sizes[one] for one in inside)
            assert admission.admitted_size <= 100 or len(inside) == 1
            if data.draw(st.booleans()):
                break
            admission.leave(data.draw(st.sampled_from(inside)))
            if not admission.admitted_size and all(one in entered for one in range(who + 1)):
                break
    while inside:
        admission.leave(inside[0])
        entered += [one for one in range(len(sizes)) if admission.is_in(one) and one not in entered]
        inside = [one for one in entered if admission.is_in(one)]
    assert entered == sorted(entered), "first come, first served"
    assert len(entered) == len(sizes)
