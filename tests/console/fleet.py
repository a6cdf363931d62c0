"""Now → a fleet's whole history, made by SQL inside PostgreSQL: a million occurrences in about a minute."""

from datetime import datetime

from django.db import connection

from jobs.models import Job
from occurrences.models import Attempt, Occurrence, TaskRun
from tests.console.ledgers import beats

BIG = (
    """
    INSERT INTO jobs_job (
        id, name, schedule, config, metadata, origin, version, enabled, created_at, updated_at)
    SELECT md5('job' || n)::uuid, 'fleet-job-' || lpad(n::text, 5, '0'), (n %% 60) || ' * * * *', '{}', '{}',
           'file', 1, true, %(now)s - interval '90 days', %(now)s - interval '90 days'
    FROM generate_series(1, %(jobs)s) n
    """,
    """
    INSERT INTO jobs_task (id, job_id, name, function, position, config, created_at, updated_at)
    SELECT md5('task' || n)::uuid, md5('job' || n)::uuid, 'step', 'beat.importing.send', 0, '{}',
           %(now)s, %(now)s
    FROM generate_series(1, %(jobs)s) n
    """,
    # One job in five occurrences: a fleet always has the one that runs every few seconds.
    """
    INSERT INTO occurrences_occurrence (
        id, job_id, job_version, cause, scheduled_for, run_at, late_at, state, reason, exclusive, pool,
        priority, config, overrides, args, instants, requested_by, request_reason, created_at, fired_at,
        started_at, execution_timeout, finished_at, finalized_at, report)
    SELECT md5('occ' || n)::uuid,
        md5('job' || CASE WHEN n %% 5 = 0 THEN 1 ELSE 1 + n %% %(jobs)s END)::uuid, 1,
        CASE WHEN n %% 5000 = 1 THEN 'recovery' ELSE 'schedule' END, at, at, at + interval '1 minute',
        CASE WHEN n %% 10 = 1 THEN 'failed' WHEN n %% 997 = 0 THEN 'missed' ELSE 'completed' END,
        CASE WHEN n %% 10 = 1 THEN 'failed after 4 attempts' ELSE '' END, true, 'default', 0,
        %(config)s, '{}', '{}', 1, '', '', at, at, at, interval '1 hour',
        at + (n %% 90) * interval '1 second', at + (n %% 90) * interval '1 second', '{"outcome": "completed"}'
    FROM (SELECT n, %(now)s - n * interval '7 seconds' AS at FROM generate_series(1, %(rows)s) n) rows
    """,
    """
    INSERT INTO occurrences_occurrence (
        id, job_id, job_version, cause, scheduled_for, run_at, late_at, state, reason, exclusive, pool,
        priority, config, overrides, args, instants, requested_by, request_reason, created_at,
        execution_timeout)
    SELECT md5('next' || n)::uuid, md5('job' || n)::uuid, 1, 'schedule', at, at, at + interval '1 minute',
        'pending', '', true, 'default', 0, %(config)s, '{}', '{}', 1, '', '', %(now)s, interval '1 hour'
    FROM (SELECT n, %(now)s + n * interval '360 milliseconds' AS at FROM generate_series(1, %(jobs)s) n) rows
    """,
    """
    INSERT INTO occurrences_taskrun (
        id, occurrence_id, task_id, position, state, reason, policy, attempts_made, snoozes, available_at,
        dispatched_at, claimed_by, started_at, finished_at, error, fingerprint, resolution)
    SELECT md5('run' || n)::uuid, md5('occ' || n)::uuid,
        md5('task' || CASE WHEN n %% 5 = 0 THEN 1 ELSE 1 + n %% %(jobs)s END)::uuid, 0,
        CASE WHEN n %% 10 = 1 THEN 'dlq' ELSE 'success' END, '', '{}', 1, 0, at, at, 'worker-1@host', at,
        at + (n %% 90) * interval '1 second',
        CASE WHEN n %% 10 = 1 THEN 'OSError: no space left on device ' || (n / 10 %% 200) ELSE '' END,
        CASE WHEN n %% 10 = 1 THEN lpad((n / 10 %% 200)::text, 16, '0') ELSE '' END, ''
    FROM (SELECT n, %(now)s - n * interval '7 seconds' AS at FROM generate_series(1, %(rows)s) n) rows
    """,
    """
    INSERT INTO occurrences_attempt (
        id, run_id, number, state, worker, started_at, finished_at, error_type, error, traceback, log)
    SELECT md5('attempt' || n)::uuid, md5('run' || n)::uuid, 0,
        CASE WHEN n %% 10 = 1 THEN 'failed' ELSE 'success' END, 'worker-1@host', at,
        at + (n %% 90) * interval '1 second', CASE WHEN n %% 10 = 1 THEN 'OSError' ELSE '' END, '', '', ''
    FROM (SELECT n, %(now)s - n * interval '7 seconds' AS at FROM generate_series(1, %(rows)s) n) rows
    """,
)


def fill_big(now: datetime, *, jobs: int = 10_000, rows: int = 1_000_000) -> None:
    """Only PostgreSQL: a fleet, its history, and its next occurrence each."""
    config = '{"mode": "parallel", "recovery": "execute_last", "overlap": "skip", "timezone": "UTC"}'
    values: dict[str, datetime | int | str] = {"now": now, "jobs": jobs, "rows": rows, "config": config}
    with connection.cursor() as cursor:
        for statement in BIG:
            cursor.execute(statement, values)
        for model in (Job, Occurrence, TaskRun, Attempt):
            cursor.execute(f"VACUUM ANALYZE {model._meta.db_table}")
    beats(now)
