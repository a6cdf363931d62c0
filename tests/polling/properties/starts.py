"""Properties about when a start is allowed, and by when it must happen.

A start is allowed when a matching minute is pending (including the minute of the first registration), a
retry is due, or a crash interrupted the previous run (POL-8).
"""

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise

from tests.polling.properties.history import Active, Epoch, History, Run
from tests.polling.properties.order import LAG, Witness
from tests.polling.trace import InitEnd, RunStart, StopStart, UnexpectedShutdown

STARVED_AFTER = 3  # due minutes without a start: stands for "never again" in a finite trace


def eligible(history: History) -> Iterator[Witness]:
    """A task starts only if it is registered, no stop has begun, and there is a reason."""
    for task, runs in history.runs.items():
        for run in runs:
            epoch = history.epoch(task, run.index)
            in_force = isinstance(history.last_before(run.index, InitEnd, StopStart), InitEnd)
            if epoch is None or not in_force or not _has_reason(history, run, epoch):
                yield (run.start,)


def _has_reason(history: History, run: Run, epoch: Epoch) -> bool:
    return history.due_pending(run, epoch) or history.retry_pending(run, epoch) or history.interrupted(run)


def no_make_up(history: History) -> Iterator[Witness]:
    """After any number of missed minutes, a task starts once between an InitEnd and the next due minute."""
    for index, init in history.indexed(InitEnd):
        for task, rule in init.registrations.items() if isinstance(init, InitEnd) else ():
            due = history.next_due(rule, init.at)
            again = history.first_after(index, InitEnd)
            ends = [at for at in (due, again and again.at) if at]
            within = [
                run
                for run in history.runs[task]
                if run.index > index and all(run.start.at < end for end in ends)
            ]
            starts = _without_retries(history, within)
            if len(starts) > 1:
                yield (init, *starts)


def interrupted_restart(history: History) -> Iterator[Witness]:
    """A run that a crash interrupted starts again soon after the next InitEnd that names its task."""
    for task, runs in history.runs.items():
        for run in runs:
            if run.crash is None:
                continue
            crashed = history.events.index(run.crash)
            init = history.first_after(crashed, InitEnd)
            if not isinstance(init, InitEnd) or task not in init.registrations:
                continue
            if _start_missing(history, task, after=history.events.index(init), since=init.at):
                yield run.start, run.crash, init


def _start_missing(history: History, task: str, *, after: int, since: datetime) -> bool:
    """Whether the task did not start in time, and no stop, crash or removal excuses it."""
    deadline = since + LAG
    for event in history.events[after + 1 :]:
        if event.at > deadline:
            return True
        match event:
            case RunStart(task=started) if started == task:
                return False
            case StopStart() | UnexpectedShutdown():
                return False
            case InitEnd() if task not in event.registrations:
                return False
    return history.until > deadline


def one_start_per_instant(history: History) -> Iterator[Witness]:
    """A due minute and a due retry at the same instant make one start."""
    for runs in history.runs.values():
        for run, following in pairwise(runs):
            if run.start.at == following.start.at:
                yield run.start, following.start


def one_start_per_due_minute(history: History) -> Iterator[Witness]:
    """Between two due minutes, without a failure, a task starts once."""
    for task, runs in history.runs.items():
        groups: dict[tuple[int, datetime], list[Run]] = defaultdict(list)
        for run in runs:
            epoch = history.epoch(task, run.index)
            due = epoch and history.latest_due(epoch.rule, run.start.at)
            if epoch and due and not history.interrupted(run):
                groups[epoch.first, due].append(run)
        for group in groups.values():
            starts = _without_retries(history, group)
            if len(starts) > 1:
                yield tuple(starts)


def _without_retries(history: History, runs: list[Run]) -> list[RunStart]:
    """The first start, and the later ones that are not retries."""
    return [run.start for run in runs[:1]] + [
        run.start for run in runs[1:] if (before := history.run_before(run)) and not before.failed
    ]


def bounded_lag(history: History) -> Iterator[Witness]:
    """A due minute leads to a start within a minute, counted from the end of a run in progress."""
    for task in history.tasks:
        for active in history.active_periods(task):
            for due in history.due_within(active.rule, active.since, active.until):
                if not _started_in_time(history, task, active, due):
                    yield history.events[active.first], RunStart(due, task)


def _started_in_time(history: History, task: str, active: Active, due: datetime) -> bool:
    runs = history.runs[task]
    busy = [run for run in runs if run.start.at < due and (run.over_at is None or run.over_at > due)]
    if any(run.over_at is None for run in busy):
        return True  # no start is due while it runs
    deadline = max([due, *(run.over_at for run in busy if run.over_at)]) + LAG
    if min(active.until, history.until) <= deadline or _excused_by_retry(runs, active, due):
        return True
    return any(due <= run.start.at <= deadline for run in runs)


def _excused_by_retry(runs: tuple[Run, ...], active: Active, due: datetime) -> bool:
    """Whether a failure shortly before the minute excuses a later start by its retry delay."""
    return any(
        run.failed and run.over_at is not None and run.over_at < due < run.over_at + active.rule.retry_delay
        for run in runs
    )


def never_starved(history: History) -> Iterator[Witness]:
    """Without a stop or a crash, a task that is repeatedly due keeps starting."""
    for task in history.tasks:
        for active in history.active_periods(task):
            undisturbed = history.first_after(active.first, StopStart, UnexpectedShutdown) is None
            if undisturbed and _starved(history, task, active):
                yield history.events[active.first], RunStart(active.until, task)


def recovers(history: History) -> Iterator[Witness]:
    """After a crash and a new InitEnd, a task that is repeatedly due keeps starting."""
    for task in history.tasks:
        for active in history.active_periods(task):
            crash = history.last_before(active.first, UnexpectedShutdown)
            if crash is not None and _starved(history, task, active):
                yield crash, history.events[active.first]


def _starved(history: History, task: str, active: Active) -> bool:
    missed = 0
    dues = [*history.due_within(active.rule, active.since, active.until), active.until]
    for due, following in pairwise(dues):
        missed = 0 if _ran_between(history.runs[task], due, following) else missed + 1
        if missed > STARVED_AFTER:
            return True
    return False


def _ran_between(runs: tuple[Run, ...], since: datetime, until: datetime) -> bool:
    """Whether the task was running at some time between the two."""
    return any(run.start.at < until and (run.over_at is None or run.over_at >= since) for run in runs)
