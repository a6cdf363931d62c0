"""Properties about the order of events."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise

from tests.polling.properties.history import History
from tests.polling.trace import (
    Event,
    InitEnd,
    RunEnd,
    RunStart,
    StopEnd,
    StopStart,
    UnexpectedShutdown,
)

Witness = tuple[Event, ...]

LAG = timedelta(minutes=1)


def well_formed_runs(history: History) -> Iterator[Witness]:
    """Every end is preceded by its own start."""
    last: dict[str, Event] = {}
    for _, event in history.indexed(RunStart, RunEnd):
        task = event.task if isinstance(event, RunStart | RunEnd) else ""
        before = last.get(task)
        if isinstance(event, RunEnd) and not isinstance(before, RunStart):
            yield (before, event) if before else (event,)
        last[task] = event


def no_overlap(history: History) -> Iterator[Witness]:
    """A task starts again only after it ended, or after the crash that ended it."""
    for runs in history.runs.values():
        for run, following in pairwise(runs):
            if run.over_at is None:
                yield run.start, following.start


def quiet_after_stop(history: History) -> Iterator[Witness]:
    """After StopEnd nothing starts before the next InitEnd."""
    for index, stop in history.indexed(StopEnd):
        following = history.first_after(index, InitEnd, RunStart)
        if isinstance(following, RunStart):
            yield stop, following


def crash_consistency(history: History) -> Iterator[Witness]:
    """After a crash nothing ends that did not start after it, and nothing starts before an InitEnd."""
    yield from no_fabricated_ends(history)
    for index, crash in history.indexed(UnexpectedShutdown):
        following = history.first_after(index, InitEnd, RunStart, UnexpectedShutdown)
        if isinstance(following, RunStart):
            yield crash, following


def no_fabricated_ends(history: History) -> Iterator[Witness]:
    """After a crash every end has a start that is not older than the crash."""
    for index, crash in history.indexed(UnexpectedShutdown):
        started: set[str] = set()
        for event in history.events[index + 1 :]:
            if isinstance(event, RunStart):
                started.add(event.task)
            elif isinstance(event, RunEnd) and event.task not in started:
                yield crash, event


def stop_flushes(history: History) -> Iterator[Witness]:
    """A run that started before StopEnd ends, or a crash ends it; nothing starts after StopEnd."""
    yield from quiet_after_stop(history)
    for index, stop in history.indexed(StopEnd):
        for run in history.open_at(index):
            if run.over_at is None:
                yield run.start, stop


def stop_terminates(history: History) -> Iterator[Witness]:
    """Once no run is in progress, StopEnd follows StopStart; nothing starts after that."""
    yield from quiet_after_stop(history)
    for index, stop in history.indexed(StopStart):
        if history.first_after(index, StopEnd, UnexpectedShutdown) is not None:
            continue
        ends = [run.over_at for run in history.open_at(index)]
        quiet_at = max([stop.at, *(at for at in ends if at is not None)])
        if None not in ends and history.until > quiet_at + LAG:
            yield (stop,)
