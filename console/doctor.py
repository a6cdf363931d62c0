"""This installation → findings, one line each: what is wrong, and what to do about it.

Asked by `manage.py doctor` on the machine and with the environment of the process in question. A finding
names settings and counts, never their values: no address, user or password.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from celery import current_app
from django.conf import settings
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from console import health
from execution.checks import MOST_PREFETCHED
from jobs.clock import database_now
from jobs.condition import Condition, in_condition
from jobs.errors import PunctualError
from jobs.models import Job
from jobs.scheduling import job_config, platform
from occurrences.models import Cursor

OK, WARN, FAIL = "ok", "warn", "fail"
SKEW_NOTED, SKEW_REFUSED = timedelta(milliseconds=500), timedelta(seconds=5)
DEFAULT_VISIBILITY = timedelta(hours=1)  # Celery's, for Redis
PING = 1.0  # seconds


@dataclass(frozen=True)
class Finding:
    check: str
    level: str
    detail: str
    advice: str = ""


def examined(clock: Callable[[], datetime]) -> Iterator[Finding]:
    """`clock` reads this machine's; it is compared with the database's."""
    yield from check_settings()
    try:
        yield judged_skew(clock() - database_now())
    except Exception as error:  # noqa: BLE001 - whatever a driver raises means the same
        yield Finding("database", FAIL, f"unreachable ({type(error).__name__})", "check DATABASE_URL")
        return
    yield Finding("database", OK, f"{connection.display_name} answers")
    missing = unapplied()
    yield judged_migrations(missing)
    yield from check_broker()
    if not missing:
        yield from check_processes()
        yield from check_jobs()


def check_settings() -> Iterator[Finding]:
    conf = current_app.conf
    wanted = {
        "CELERY_TASK_ACKS_LATE": (bool(conf.task_acks_late), "a crashed worker would lose what it had taken"),
        "CELERY_ACCEPT_CONTENT": (list(conf.accept_content) == ["json"], "nothing else may be unpickled"),
        "CELERY_WORKER_PREFETCH_MULTIPLIER": (
            1 <= conf.worker_prefetch_multiplier <= MOST_PREFETCHED,
            "a worker that is killed would take many messages with it",
        ),
        "USE_TZ": (bool(settings.USE_TZ), "every instant is aware UTC"),
        "DEBUG": (not settings.DEBUG, "errors would show settings to whoever causes them"),
    }
    wrong = [
        Finding("settings", FAIL, f"{name} is unsafe", why) for name, (ok, why) in wanted.items() if not ok
    ]
    try:
        platform()
    except PunctualError as error:
        wrong.append(Finding("settings", FAIL, str(error), "correct settings.PUNCTUAL"))
    yield from wrong or [Finding("settings", OK, "safe")]


def judged_skew(skew: timedelta) -> Finding:
    way = "ahead of" if skew > timedelta() else "behind"
    told = f"this machine is {abs(skew).total_seconds():.1f} s {way} the database"
    if abs(skew) <= SKEW_NOTED:
        return Finding("clock", OK, "agrees with the database's")
    level = FAIL if abs(skew) > SKEW_REFUSED else WARN
    return Finding("clock", level, told, "run NTP; the database's clock decides, logs would mislead")


def unapplied() -> int:
    executor = MigrationExecutor(connection)
    return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def judged_migrations(missing: int) -> Finding:
    if missing:
        return Finding("migrations", FAIL, f"{missing} not applied", "run manage.py migrate")
    return Finding("migrations", OK, "all applied")


def check_broker() -> Iterator[Finding]:
    found = health.run({"broker": health.broker}, timeout=5)["broker"]
    if not found.ok:
        yield Finding("broker", FAIL, found.detail, "check BROKER_URL; nothing is lost meanwhile, only late")
        return
    yield Finding("broker", OK, found.detail)
    if str(current_app.conf.broker_url or "").startswith("redis"):
        yield judged_visibility(visibility(), longest())
        yield from check_eviction()


def visibility() -> timedelta:
    options = current_app.conf.broker_transport_options or {}
    return timedelta(seconds=options.get("visibility_timeout", DEFAULT_VISIBILITY.total_seconds()))


def longest() -> timedelta:
    """The longest any occurrence may take."""
    rows = Job.objects.registered().only("config", "name", "schedule", "created_at")
    return max((_timeout(job) for job in rows.iterator(2000)), default=timedelta())


def _timeout(job: Job) -> timedelta:
    try:
        return job_config(job).execution_timeout
    except PunctualError:
        return timedelta()  # found by another check


def judged_visibility(visible: timedelta, longest_run: timedelta) -> Finding:
    if visible >= longest_run:
        return Finding("visibility timeout", OK, f"{visible} covers the longest execution_timeout")
    told = f"{visible}, and an occurrence may take {longest_run}"
    advice = "redelivered messages are dropped by their claim, but raise it to spare the traffic"
    return Finding("visibility timeout", WARN, told, advice)


def check_eviction() -> Iterator[Finding]:
    try:
        with current_app.connection_for_write() as link:
            channel: Any = link.default_channel
            policy: dict[str, Any] = channel.client.config_get("maxmemory-policy")
    except Exception:  # noqa: BLE001 - a managed Redis may refuse the question
        return
    name = str(policy.get("maxmemory-policy", "noeviction"))
    if name != "noeviction":
        advice = "set maxmemory-policy noeviction: an evicted message is found again only by the sweeper"
        yield Finding("eviction", FAIL, f"the broker may evict messages ({name})", advice)


def check_processes() -> Iterator[Finding]:
    ticks = health.tick(getattr(settings, "READYZ_OLDEST_TICK", None))
    advice = "start celery -A scheduler_project beat, two for safety"
    yield Finding("beats", OK if ticks.ok else FAIL, ticks.detail, "" if ticks.ok else advice)
    yield judged_workers(answering())
    taken = health.consumption()
    advice = "" if taken.ok else "workers listen to other queues, or are stuck: restart them"
    yield Finding("consumption", OK if taken.ok else FAIL, taken.detail, advice)


def answering() -> int:
    try:
        return len(current_app.control.ping(timeout=PING) or [])
    except Exception:  # noqa: BLE001 - the broker is away, which another line says
        return 0


def judged_workers(count: int) -> Finding:
    advice = "" if count else "start celery -A scheduler_project worker"
    return Finding("workers", OK if count else FAIL, f"{count} answer", advice)


def check_jobs() -> Iterator[Finding]:
    broken = Cursor.objects.filter(job__removed_at=None).exclude(problem="").count()
    lost = Job.objects.filter(in_condition(Condition.UNRESOLVED)).count()
    if broken:
        yield Finding("jobs", FAIL, f"{broken} cannot be planned", "manage.py jobs list shows why")
    if lost:
        yield Finding(
            "jobs", WARN, f"{lost} name functions no code registers", "deploy the code, or remove them"
        )
    if not broken and not lost:
        yield Finding("jobs", OK, f"{Job.objects.active().count()} active")
