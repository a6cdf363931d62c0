"""`doctor`: examine this installation and report one line per check, with what to do about it.

Run it on the machine and with the environment of the process in question. A finding names settings and
counts, never their values: no address, user or password.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta

from celery import current_app
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from punctual import checks, conf
from punctual.commands.verb import Answer, Options, Row, Verb
from punctual.console.status import health
from punctual.console.status.lock_holders import LONG, lock_holders
from punctual.console.status.outage_reasons import outage_reason
from punctual.execution.broker.brokers import broker_of
from punctual.execution.models import Process, Rejection
from punctual.execution.supervision.presence import SILENT_AFTER
from punctual.jobs.clock import database_now
from punctual.jobs.condition import Condition, in_condition
from punctual.jobs.config.cascade import job_config
from punctual.jobs.errors import PunctualError
from punctual.jobs.models import Job
from punctual.jobs.redaction import redact_text
from punctual.occurrences.models import Cursor

OK, WARN, FAIL = "ok", "warn", "fail"
MAX_SKEW, MAX_TOLERATED_SKEW = timedelta(milliseconds=500), timedelta(seconds=5)
BROKER_TIMEOUT = 5  # seconds
PING_TIMEOUT = 1.0  # seconds


@dataclass(frozen=True)
class Finding:
    check: str
    level: str
    detail: str
    advice: str = ""


def run(_options: Options) -> Answer:
    findings = list(examine(lambda: datetime.now(UTC)))
    failed = any(finding.level == FAIL for finding in findings)
    return Answer(map(asdict, findings), text, exit_code=lambda: int(failed))


def text(row: Row) -> str:
    line = f"{row['level']:4}  {row['check']:18}  {row['detail']}"
    return f"{line}\n{'':26}→ {row['advice']}" if row["advice"] and row["level"] != OK else line


def examine(clock: Callable[[], datetime]) -> Iterator[Finding]:
    """Run every check; `clock` reads this machine's clock, which is compared with the database's."""
    yield from examine_settings()
    try:
        yield judge_skew(clock() - database_now())
    except Exception as error:  # noqa: BLE001 - every error of a driver means the same here
        yield Finding("database", FAIL, outage_reason(error), "check DATABASE_URL")
        return
    yield Finding("database", OK, f"{connection.display_name} answers")
    missing = count_unapplied_migrations()
    yield judge_migrations(missing)
    yield from examine_broker()
    if not missing:
        yield from examine_locks()
        yield from examine_processes()
        yield from examine_jobs()


def examine_settings() -> Iterator[Finding]:
    messages = [*checks.check_installation(), *checks.check_debug()]
    for message in messages:
        yield Finding("settings", FAIL, message.msg, message.hint or "")
    if not messages:
        yield Finding("settings", OK, "safe")


def judge_skew(skew: timedelta) -> Finding:
    if abs(skew) <= MAX_SKEW:
        return Finding("clock", OK, "agrees with the database's")
    direction = "ahead of" if skew > timedelta() else "behind"
    detail = f"this machine is {abs(skew).total_seconds():.1f} s {direction} the database"
    level = FAIL if abs(skew) > MAX_TOLERATED_SKEW else WARN
    return Finding("clock", level, detail, "run NTP; the database's clock decides, logs would mislead")


def count_unapplied_migrations() -> int:
    executor = MigrationExecutor(connection)
    return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def judge_migrations(missing: int) -> Finding:
    if missing:
        return Finding("migrations", FAIL, f"{missing} not applied", "run manage.py migrate")
    return Finding("migrations", OK, "all applied")


def examine_broker() -> Iterator[Finding]:
    answer = health.run_checks({"broker": health.broker}, timeout=BROKER_TIMEOUT)["broker"]
    if not answer.ok:
        advice = "check BROKER_URL; nothing is lost, runs start late"
        yield Finding("broker", FAIL, answer.detail, advice)
        return
    yield Finding("broker", OK, answer.detail)
    broker = broker_of(str(current_app.conf.broker_url))
    visible = broker.visibility_timeout()
    if visible is not None:
        yield judge_visibility_timeout(visible, longest_execution_timeout())
    if policy := broker.eviction_policy():
        advice = "set maxmemory-policy noeviction: only the sweeper finds an evicted message again"
        yield Finding("eviction", FAIL, f"the broker may evict messages ({policy})", advice)


def longest_execution_timeout() -> timedelta:
    """Return the longest time that an occurrence of a stored job may take."""
    jobs = Job.objects.registered().only("config", "name", "schedule", "created_at")
    return max((_execution_timeout(job) for job in jobs.iterator(2000)), default=timedelta())


def _execution_timeout(job: Job) -> timedelta:
    try:
        return job_config(job).execution_timeout
    except (PunctualError, ImproperlyConfigured):  # other checks report it
        return timedelta()


def judge_visibility_timeout(visible: timedelta, longest: timedelta) -> Finding:
    if visible >= longest:
        return Finding("visibility timeout", OK, f"{visible} covers the longest execution_timeout")
    detail = f"{visible}, and an occurrence may take {longest}"
    advice = "a redelivered message is ignored by its claim; raise the timeout to save the traffic"
    return Finding("visibility timeout", WARN, detail, advice)


def examine_processes() -> Iterator[Finding]:
    tick = health.tick(_oldest_tick())
    advice = "" if tick.ok else "start celery -A scheduler_project beat, two for safety"
    yield Finding("beats", OK if tick.ok else FAIL, tick.detail, advice)
    present = Process.objects.workers().seen_since(database_now() - SILENT_AFTER).count()
    yield judge_workers(count_workers(), present)
    consumption = health.consumption()
    advice = "" if consumption.ok else "workers listen to other queues, or are stuck: restart them"
    yield Finding("consumption", OK if consumption.ok else FAIL, consumption.detail, advice)
    queues = health.queues()
    advice = "" if queues.ok else "start a worker with --queues, or correct the setting queue of the tasks"
    yield Finding("queues", OK if queues.ok else FAIL, queues.detail, advice)
    yield from examine_rejections()


def examine_rejections() -> Iterator[Finding]:
    """Messages that workers could not read, since the installation began."""
    rows = list(Rejection.objects.order_by("-last_at"))
    if not rows:
        yield Finding("messages", OK, "all could be read")
        return
    newest, count = rows[0], sum(row.count for row in rows)
    place = f" in queue {newest.queue!r}" if newest.queue else ""
    detail = (
        f"{count} messages could not be read; the last, {newest.problem}{place}, at {newest.last_at:%F %T}Z"
    )
    advice = "`message.rejected` in the worker's log shows each; another program sends to these queues"
    yield Finding("messages", WARN, detail, advice)


def _oldest_tick() -> timedelta | None:
    try:
        return conf.current_settings().oldest_tick
    except ImproperlyConfigured:  # examine_settings reports it
        return None


def count_workers() -> int:
    try:
        return len(current_app.control.ping(timeout=PING_TIMEOUT) or [])
    except Exception:  # noqa: BLE001 - the broker is away, which examine_broker reports
        return 0


def judge_workers(answering: int, present: int) -> Finding:
    """`present` have renewed their rows lately, so they run, whether or not the broker reaches them."""
    if answering >= present > 0 or (answering and not present):
        return Finding("workers", OK, f"{answering} answer")
    if present:
        detail = f"{present} run, {answering} answer through the broker"
        return Finding(
            "workers", WARN, detail, "check that they reach the broker; a busy solo pool does not answer"
        )
    return Finding("workers", FAIL, "none runs", "start celery -A scheduler_project worker")


def examine_locks(min_age: timedelta = LONG) -> Iterator[Finding]:
    holders = lock_holders(min_age)
    for holder in holders:
        advice = f"end its transaction, or the session: SELECT pg_terminate_backend({holder.pid})"
        yield Finding("locks", WARN, str(holder), advice)
    if not holders:
        yield Finding("locks", OK, "no session has held rows for long")


def examine_jobs() -> Iterator[Finding]:
    problems = Cursor.objects.filter(job__removed_at=None).exclude(problem="").order_by("job__name")
    unplannable = problems.count()
    unresolved = Job.objects.filter(in_condition(Condition.UNRESOLVED)).count()
    if unplannable:
        name, problem = problems.values_list("job__name", "problem")[0]
        detail = f"{unplannable} cannot be planned, the first is {name!r}: {redact_text(problem)}"
        yield Finding("jobs", FAIL, detail, "manage.py punctual jobs list shows all of them")
    if unresolved:
        detail = f"{unresolved} name functions that no code registers"
        yield Finding("jobs", WARN, detail, "deploy the code, or remove them")
    if not unplannable and not unresolved:
        yield Finding("jobs", OK, f"{Job.objects.active().count()} active")


VERBS = (
    Verb(
        "doctor",
        "examine settings, clocks, database, migrations, broker, beats, workers and jobs",
        run,
        system_checks=False,
    ),
)
