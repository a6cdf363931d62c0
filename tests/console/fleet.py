"""Fill a big fleet with its history by SQL inside PostgreSQL: a million occurrences in about a minute."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.db import connection, transaction

from punctual.jobs.models import Job, JobVersion, Task
from punctual.occurrences.models import Attempt, Occurrence, TaskRun
from punctual.operations.models import Audit
from tests.console.ledgers import beats

CHUNK = 100_000  # rows between two progress messages
CONFIG = '{"mode": "parallel", "recovery": "execute_last", "overlap": "skip", "timezone": "UTC"}'
DEFINITIONS = (
    # The busiest job and every tenth keep a day of their history: the rest of it is there to be pruned.
    """
    INSERT INTO punctual_job (
        id, name, schedule, config, metadata, origin, version, enabled, created_at, updated_at)
    SELECT md5('job' || n)::uuid, 'fleet-job-' || lpad(n::text, 5, '0'), (n %% 60) || ' * * * *',
           CASE WHEN n = 1 OR n %% 10 = 3 THEN '{"retention": "1d"}' ELSE '{}' END::jsonb, '{}',
           CASE WHEN n = 2 THEN 'admin' ELSE 'file' END, 1, true, %(now)s - interval '90 days',
           %(now)s - interval '90 days'
    FROM generate_series(1, %(jobs)s) n
    """,
    """
    INSERT INTO punctual_task (id, job_id, name, function, position, config, created_at, updated_at)
    SELECT md5('task' || n)::uuid, md5('job' || n)::uuid, 'step',
           'punctual.beat.periodic_tasks.importer.send', 0, '{}', %(now)s, %(now)s
    FROM generate_series(1, %(jobs)s) n
    """,
    """
    INSERT INTO punctual_jobversion (job_id, number, author, reason, after, created_at)
    SELECT md5('job' || n)::uuid, 1, 'ada', 'first', '{"schedule": "@hourly"}',
           %(now)s - interval '90 days'
    FROM generate_series(1, %(jobs)s) n
    """,
    "UPDATE punctual_cursor SET settled_until = %(now)s",
    """
    INSERT INTO punctual_audit (action, requested_by, reason, at, count, details, finished)
    SELECT 'replay', 'ada', 'the disk was replaced', %(now)s - n * interval '1 minute', 3, '{}', true
    FROM generate_series(1, %(jobs)s) n
    """,
    """
    INSERT INTO punctual_occurrence (
        id, job_id, job_version, cause, scheduled_for, run_at, late_at, state, reason, exclusive, pool,
        holds_slot, priority, config, overrides, metadata, args, instants, requested_by, request_reason,
        created_at, execution_timeout)
    SELECT md5('next' || n)::uuid, md5('job' || n)::uuid, 1, 'schedule', at, at, at + interval '1 minute',
        'pending', '', true, 'default', false, 0, %(config)s, '{}', '{}', '{}', 1, '', '', %(now)s,
        interval '1 hour'
    FROM (SELECT n, %(now)s + n * interval '360 milliseconds' AS at FROM generate_series(1, %(jobs)s) n) rows
    """,
    "INSERT INTO punctual_pool (name, size) VALUES ('default', 5000) ON CONFLICT DO NOTHING",
    # What is under way: every fiftieth is held by a worker, the others' messages wait in three queues.
    """
    INSERT INTO punctual_occurrence (
        id, job_id, job_version, cause, scheduled_for, run_at, late_at, state, reason, exclusive, pool,
        holds_slot, priority, config, overrides, metadata, args, instants, requested_by, request_reason,
        created_at, fired_at, started_at, execution_timeout)
    SELECT md5('live' || n)::uuid, md5('job' || n)::uuid, 1, 'schedule', at, at, at + interval '1 minute',
        'running', '', false, 'default', true, 0, %(config)s, '{}', '{}', '{}', 1, '', '', at, at, at,
        interval '1 hour'
    FROM (SELECT n, %(now)s - n * interval '20 milliseconds' AS at
          FROM generate_series(1, %(jobs)s / 4) n) rows
    """,
    """
    INSERT INTO punctual_taskrun (
        id, occurrence_id, task_id, function, position, state, reason, policy, attempts_made, snoozes,
        available_at, dispatched_at, claimed_by, claim_token, lease_until, heartbeat_at, started_at, error,
        fingerprint, resolution)
    SELECT md5('liverun' || n)::uuid, md5('live' || n)::uuid, md5('task' || n)::uuid, 'nowhere.step', 0,
        CASE WHEN held THEN 'running' ELSE 'scheduled' END, '',
        json_build_object('queue', CASE n %% 3 WHEN 0 THEN 'default' WHEN 1 THEN 'reports' ELSE 'mail' END),
        1, 0, at, at, CASE WHEN held THEN 'celery@worker-' || n %% 8 || '/' || n ELSE '' END,
        CASE WHEN held THEN md5('token' || n)::uuid END, CASE WHEN held THEN %(now)s + interval '1 hour' END,
        CASE WHEN held THEN at END, CASE WHEN held THEN at END, '', '', ''
    FROM (SELECT n, n %% 50 = 0 AS held, %(now)s - n * interval '20 milliseconds' AS at
          FROM generate_series(1, %(jobs)s / 4) n) rows
    """,
)
# One job in five occurrences: a fleet always has the one that runs every few seconds. One run in ten is a
# dead letter, of one of two hundred errors.
HISTORY = (
    """
    INSERT INTO punctual_occurrence (
        id, job_id, job_version, cause, scheduled_for, run_at, late_at, state, reason, exclusive, pool,
        holds_slot, priority, config, overrides, metadata, args, instants, requested_by, request_reason,
        created_at, fired_at, started_at, execution_timeout, finished_at, finalized_at, report)
    SELECT md5('occ' || n)::uuid,
        md5('job' || CASE WHEN n %% 5 = 0 THEN 1 ELSE 1 + n %% %(jobs)s END)::uuid, 1,
        CASE WHEN n %% 5000 = 1 THEN 'recovery' ELSE 'schedule' END, at, at, at + interval '1 minute',
        CASE WHEN n %% 10 = 1 THEN 'failed' WHEN n %% 997 = 0 THEN 'missed' ELSE 'completed' END,
        CASE WHEN n %% 10 = 1 THEN 'failed after 4 attempts' ELSE '' END, true, 'default', false, 0,
        %(config)s, '{}', '{}', '{}', 1, '', '', at, at, at, interval '1 hour',
        at + (n %% 90) * interval '1 second', at + (n %% 90) * interval '1 second', '{"outcome": "completed"}'
    FROM (SELECT n, %(now)s - n * interval '7 seconds' AS at
          FROM generate_series(%(low)s::int, %(high)s) n) rows
    """,
    """
    INSERT INTO punctual_taskrun (
        id, occurrence_id, task_id, function, position, state, reason, policy, attempts_made, snoozes,
        available_at, dispatched_at, claimed_by, started_at, finished_at, error, fingerprint, resolution)
    SELECT md5('run' || n)::uuid, md5('occ' || n)::uuid,
        md5('task' || CASE WHEN n %% 5 = 0 THEN 1 ELSE 1 + n %% %(jobs)s END)::uuid, 'nowhere.step', 0,
        CASE WHEN n %% 10 = 1 THEN 'dlq' ELSE 'success' END, '', '{}', 1, 0, at, at, 'worker-1@host', at,
        at + (n %% 90) * interval '1 second',
        CASE WHEN n %% 10 = 1 THEN 'OSError: no space left on device ' || (n / 10 %% 200) ELSE '' END,
        CASE WHEN n %% 10 = 1 THEN lpad((n / 10 %% 200)::text, 16, '0') ELSE '' END, ''
    FROM (SELECT n, %(now)s - n * interval '7 seconds' AS at
          FROM generate_series(%(low)s::int, %(high)s) n) rows
    """,
    """
    INSERT INTO punctual_attempt (
        id, run_id, number, state, worker, started_at, finished_at, error_type, error, traceback, log)
    SELECT md5('attempt' || n)::uuid, md5('run' || n)::uuid, 0,
        CASE WHEN n %% 10 = 1 THEN 'failed' ELSE 'success' END, 'worker-1@host', at,
        at + (n %% 90) * interval '1 second', CASE WHEN n %% 10 = 1 THEN 'OSError' ELSE '' END, '', '', ''
    FROM (SELECT n, %(now)s - n * interval '7 seconds' AS at
          FROM generate_series(%(low)s::int, %(high)s) n) rows
    """,
)


def fill_big(
    now: datetime,
    *,
    jobs: int = 10_000,
    rows: int = 1_000_000,
    progress: Callable[[str], object] = lambda _line: None,
) -> None:
    """Only PostgreSQL: a fleet, its history, what is under way, and its next occurrence each."""
    values: dict[str, Any] = {"now": now, "jobs": jobs, "config": CONFIG}
    with connection.cursor() as cursor:
        for statement in DEFINITIONS:
            cursor.execute(statement, values)
        for low in range(1, rows + 1, CHUNK):
            high = min(low + CHUNK - 1, rows)
            with transaction.atomic():
                # Every foreign key is valid by construction; checking them would double the time.
                cursor.execute("SET LOCAL session_replication_role = replica")
                for statement in HISTORY:
                    cursor.execute(statement, {**values, "low": low, "high": high})
            progress(f"{high:,} of {rows:,} occurrences")
        for model in (Job, Task, JobVersion, Audit, Occurrence, TaskRun, Attempt):
            cursor.execute(f"VACUUM ANALYZE {model._meta.db_table}")
    beats(now)
