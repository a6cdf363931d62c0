from collections.abc import Iterator
from threading import Event, active_count

import pytest

from punctual.execution.worker.watcher import Watcher

PATIENCE = 10


@pytest.fixture
def watcher() -> Watcher:
    return Watcher()


def test_an_action_is_called_at_its_time_and_again_after_the_delay_it_returns(watcher: Watcher) -> None:
    answers: Iterator[float | None] = iter([0.001, 0.001, None])
    calls: list[int] = []
    last = Event()

    def action() -> float | None:
        calls.append(1)
        answer = next(answers)
        if answer is None:
            last.set()
        return answer

    with watcher.after(0.001, action):
        assert last.wait(PATIENCE)
    assert len(calls) == 3


def test_a_block_that_ends_in_time_is_left_alone_and_a_later_entry_that_is_due_sooner_is_not_missed(
    watcher: Watcher,
) -> None:
    never, soon = Event(), Event()
    with watcher.after(0.01, never.set):
        pass
    with watcher.after(60, never.set), watcher.after(0.02, soon.set):
        assert soon.wait(PATIENCE)
    assert not never.is_set()


def test_an_action_under_way_is_waited_for(watcher: Watcher) -> None:
    entered, ended = Event(), Event()

    def action() -> None:
        entered.set()
        assert not ended.wait(0.05)
        ended.set()

    with watcher.after(0, action):
        assert entered.wait(PATIENCE)
    assert ended.is_set()


def test_an_action_that_fails_stops_no_other(watcher: Watcher) -> None:
    done = Event()

    def broken() -> None:
        raise RuntimeError("the database is away")

    with watcher.after(0, broken), watcher.after(0.01, done.set):
        assert done.wait(PATIENCE)


def test_a_thousand_short_blocks_share_one_thread(watcher: Watcher) -> None:
    before = active_count()
    for _ in range(1_000):
        with watcher.after(60, lambda: None):
            assert active_count() <= before + 1
