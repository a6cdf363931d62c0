"""Fill a whole ledger to look at: empty, small, broken, or full of odd names."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from punctual.execution.models import Process
from punctual.jobs.models import Job, JobVersion
from punctual.occurrences.models import Cursor, Occurrence, Pool, TaskRun
from punctual.occurrences.states import AttemptState, OccurrenceState, RunState
from punctual.operations.models import Audit, AuditedAction
from tests.console.ledger_rows import make_attempt, make_job, make_occurrence, make_run, make_task

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
S, R, A = OccurrenceState, RunState, AttemptState
TRACEBACK = """Traceback (most recent call last):
  File "/srv/shop/warehouse.py", line 41, in load
    cursor.copy_from(rows, "orders")
  File "/srv/shop/storage.py", line 12, in copy_from
    raise OSError(28, "No space left on device")
OSError: [Errno 28] No space left on device
"""
LONG = (
    "reconcile-the-ledger-of-every-single-warehouse-in-every-region-with-the-accounting-system-nightly-" * 2
)
CONFIG = {"mode": "parallel", "recovery": "execute_last", "overlap": "skip", "timezone": "Europe/Berlin"}


def fill(kind: str, now: datetime) -> None:
    FILLERS[kind](now)


def empty(now: datetime) -> None:
    """Nothing at all."""


def one(now: datetime) -> None:
    """One job; nothing has run yet."""
    job = make_job("first-report", now - MINUTE, schedule="TZ=Europe/Berlin 0 2 * * *", origin="admin")
    make_task(job, "send")
    make_occurrence(job, now + 5 * HOUR, S.PENDING, config=CONFIG)


def small(now: datetime) -> None:
    """An afternoon of a healthy shop with a few failures."""
    beats(now)
    etl = make_job(
        "warehouse-etl",
        now - 30 * DAY,
        schedule="TZ=Europe/Berlin 0 */2 * * * {jitter:5m}",
        version=3,
        origin="admin",
    )
    tasks = [make_task(etl, name, position=at) for at, name in enumerate(("extract", "load", "close"))]
    versions(etl, now)
    for number in range(40):
        at = now.replace(minute=0, second=0, microsecond=0) - number * 2 * HOUR
        state = S.FAILED if number in (1, 7, 8) else S.COMPLETED
        one = make_occurrence(
            etl, at, state, config=CONFIG, job_version=3, run_at=at + 42 * MINUTE / 60,
            started_at=at + MINUTE, finished_at=at + (3 + number % 5) * MINUTE,
            fired_at=at + 50 * MINUTE / 60,
            reason="dead letter: load" if state == S.FAILED else "",
        )  # fmt: skip
        if number < 12:
            story(one, tasks, failing=state == S.FAILED)
    heartbeat = make_job("heartbeat", now - 9 * DAY, schedule="*/10 * * * * *")
    beat = make_task(heartbeat, "heartbeat")
    for number in range(60):
        at = now - number * MINUTE
        one = make_occurrence(heartbeat, at, finished_at=at + timedelta(milliseconds=40 + number * 3))
        make_run(one, beat, started_at=at)
    report = make_job("sales-report", now - 9 * DAY, schedule="TZ=America/New_York 30 17 * * 1-5")
    step = make_task(report, "send")
    live = make_occurrence(report, now - 2 * MINUTE, S.RUNNING, config=CONFIG)
    held = make_run(live, step, R.RUNNING, started_at=now - MINUTE, claimed_by="worker-1@host",
                    attempts_made=1, heartbeat_at=now, lease_until=now + MINUTE,
                    progress={"done": 40, "of": 120})  # fmt: skip
    make_attempt(held, 0, A.RUNNING, worker="worker-1@host", started_at=now - MINUTE, log="40 of 120 sent\n")
    paused = make_job("billing-close", now - 9 * DAY, schedule="0 3 1 * *", paused_at=now - DAY)
    make_task(paused, "close")
    for number in range(4):
        make_occurrence(paused, now - number * HOUR, S.SKIPPED, reason="paused", started_at=None)
    for ahead, job in ((8 * MINUTE, etl), (20 * MINUTE, report), (10 * timedelta(seconds=1), heartbeat)):
        make_occurrence(job, now + ahead, S.PENDING, config=CONFIG)
    make_occurrence(make_job("late-comer", now - DAY), now - 10 * MINUTE, S.PENDING, late_at=now - 9 * MINUTE)
    make_occurrence(report, now - 1 * MINUTE, S.QUEUED, reason="overlap")
    Pool.objects.get_or_create(name="default", defaults={"size": 20})
    for name, ago in (("worker-1@host", 1), ("worker-2@host", 3), ("worker-3@host", 400)):
        seen = now - ago * timedelta(seconds=1)
        Process.objects.update_or_create(
            name=name, defaults={"kind": "worker", "started_at": now - DAY, "seen_at": seen}
        )
    asked(
        now, AuditedAction.REPLAY, 1, "the disk was replaced", details={"of": str(live.pk), "part": "failed"}
    )
    asked(now, AuditedAction.PRUNE, 12_480, "before the move to the new host", requested_by="grace")
    asked(now, AuditedAction.SKIP, 1, "")
    found = {"lost": 2, "stale": 0, "replaced": 0, "admitted": 1, "resent": 4, "asked": 1}
    asked(now, AuditedAction.REAP, 8, "worker-3 was switched off", details={"job": None, "done": found})


def broken(now: datetime) -> None:
    """One job that cannot be planned, one that cannot run, and dead letters."""
    Process.objects.create(
        kind="beat",
        name="web-9:4711",
        started_at=now - DAY,
        seen_at=now - 10 * MINUTE,
        tick_duration=timedelta(),
    )
    bad = make_job("nightly-import", now - DAY, schedule="99 * * * *")
    problem = "ChronexError: minute: 99 is out of range 0–59 (position 0)"
    Cursor.objects.update_or_create(job=bad, defaults={"settled_until": now, "problem": problem})
    lost = make_job("legacy-export", now - DAY)
    make_task(lost, "export", registered=False)
    failing = make_job("mail-digest", now - DAY, schedule="*/15 * * * *")
    task = make_task(failing, "send")
    errors = [
        ("OSError: No space left on device", "aaaa000011112222"),
        ("KeyError: 'user'", "bbbb000011112222"),
    ]
    for number in range(30):
        at = now - number * 15 * MINUTE
        one = make_occurrence(failing, at, S.FAILED, reason="failed after 4 attempts")
        error, fingerprint = errors[number % 3 == 0]
        run = make_run(one, task, R.DLQ, error=error, fingerprint=fingerprint, attempts_made=1, started_at=at)
        make_attempt(
            run, 0, A.FAILED, error_type=error.split(":")[0], error=error, traceback=TRACEBACK, log="…\n"
        )
    silent = make_occurrence(failing, now - 62 * MINUTE, S.RUNNING)
    make_run(silent, task, R.RUNNING, started_at=now - HOUR, claimed_by="worker-9@host", attempts_made=1,
             heartbeat_at=now - HOUR, lease_until=now - HOUR)  # fmt: skip
    asked(
        now,
        AuditedAction.BACKFILL,
        311,
        "the source was late",
        details={"job": "mail-digest"},
        finished=False,
    )


def odd(now: datetime) -> None:
    """Names with markup, other scripts and extreme lengths."""
    beats(now)
    names = [
        LONG[:200],
        "夜間バッチ処理・在庫照合",
        "تقرير المبيعات اليومي",
        "<script>alert(1)</script>",
        "a & b “q” 🚚",
    ]
    for number, name in enumerate(names):
        job = make_job(name, now - DAY, schedule="TZ=Asia/Tokyo 0 2 * * *")
        task = make_task(job, name[:200])
        for back in range(6):
            one = make_occurrence(job, now - (number + back) * HOUR, S.FAILED if back % 2 else S.COMPLETED)
            dead = back % 2 == 1
            run = make_run(one, task, R.DLQ if dead else R.SUCCESS, error=f"{name}: failed" if dead else "",
                           fingerprint=f"{number:016d}" if dead else "", attempts_made=1)  # fmt: skip
            make_attempt(
                run, 0, A.FAILED if dead else A.SUCCESS, traceback=TRACEBACK if dead else "", error=name
            )
        Pool.objects.get_or_create(name=name[:100], defaults={"size": 10 ** (2 * number)})
        asked(
            now, AuditedAction.DLQ_PURGE, 10 ** (2 * number), name, requested_by=name, details={"job": name}
        )
    asked(now, AuditedAction.DLQ_REPLAY, 3, "倉庫のディスクを交換したため" * 30, requested_by="x" * 200)
    asked(
        now,
        AuditedAction.CANCEL,
        1,
        "الملف الخطأ؛ " * 30,
        requested_by="ليلى",
        details={"part": "y" * 200},
        finished=False,
    )


FILLERS: dict[str, Callable[[datetime], None]] = {
    "empty": empty,
    "one": one,
    "small": small,
    "broken": broken,
    "odd": odd,
}


def beats(now: datetime) -> None:
    """Two beats; the same two on a second call."""
    for number in (1, 2):
        facts = {
            "kind": "beat",
            "started_at": now - DAY,
            "seen_at": now,
            "tick_duration": timedelta(milliseconds=12 * number),
        }
        Process.objects.update_or_create(name=f"web-{number}:471{number}", defaults=facts)


def asked(now: datetime, action: AuditedAction, count: int, reason: str, **facts: Any) -> None:
    """An audit entry."""
    defaults = {"requested_by": "ada", "details": {}, "at": now, "finished": True}
    Audit.objects.create(action=action, count=count, reason=reason[:500], **(defaults | facts))


def versions(job: Job, now: datetime) -> None:
    before: dict[str, Any] | None = None
    for number, hour in ((1, 6), (2, 4), (3, 2)):
        after = {
            "name": job.name,
            "schedule": f"TZ=Europe/Berlin 0 */{hour} * * *",
            "config": {},
            "tasks": [],
        }
        JobVersion.objects.create(
            job=job, number=number, author="ada", reason=f"every {hour} hours", before=before, after=after,
            created_at=now - (30 - number) * DAY,
        )  # fmt: skip
        before = after


def story(one: Occurrence, tasks: list[Any], *, failing: bool) -> None:
    """Three runs; `load` has two attempts, which both fail if the occurrence failed."""
    start = one.started_at or one.run_at
    end = one.finished_at or start
    for task in tasks:
        dead = failing and task.name == "load"
        run = make_run(
            one, task, R.DLQ if dead else R.SUCCESS, attempts_made=2 if task.name == "load" else 1,
            started_at=start, finished_at=end if task.name == "close" else end - MINUTE,
            error="[Errno 28] No space left on device" if dead else "",
            fingerprint="cccc000011112222" if dead else "", reason="failed after 2 attempts" if dead else "",
        )  # fmt: skip
        attempts(run, start, dead=dead)


def attempts(run: TaskRun, start: datetime, *, dead: bool) -> None:
    worker, second = "worker-1@host", timedelta(seconds=1)
    if run.attempts_made == 2:
        make_attempt(run, 0, A.FAILED, worker=worker, started_at=start, finished_at=start + 20 * second,
                     error_type="OSError", error="[Errno 28] No space left on device", traceback=TRACEBACK,
                     log="copying 1204 orders\nno space left\n")  # fmt: skip
    last = run.attempts_made - 1
    begun = start + 50 * second * last
    make_attempt(
        run, last, A.FAILED if dead else A.SUCCESS, worker=worker, started_at=begun,
        finished_at=run.finished_at, error_type="OSError" if dead else "",
        traceback=TRACEBACK if dead else "",
        error="[Errno 28] No space left on device" if dead else "", log="copying 1204 orders\n",
    )  # fmt: skip
