"""Raw SQL of this room, for what each database needs: its clock, triggers on jobs and tasks, rules.

With the triggers the next tick plans a job anew after any edit, raw SQL included (OCC-8). They are not in a
migration because SQLite drops a table's triggers whenever Django rebuilds the table; they are installed again
after every `migrate`.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from django.db import connections

CLOCK = {
    # clock_timestamp, not now(), which stands still within a transaction.
    "postgresql": "SELECT clock_timestamp()",
    "sqlite": "SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')",
}
CHANNEL = "punctual"  # beats listen here; see punctual.beat.postgres
EPOCH = "1970-01-01 00:00:00"  # in the past on every clock: due at once

POSTGRESQL = """
CREATE OR REPLACE FUNCTION punctual_job_stamped() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- An edit that does not set updated_at (raw SQL) happens now. Other metadata plan no other instants.
  IF NEW.updated_at = OLD.updated_at AND ({planned}) THEN NEW.updated_at := clock_timestamp(); END IF;
  IF NEW.version = OLD.version THEN NEW.version := OLD.version + 1; END IF;
  IF NEW.schedule <> OLD.schedule OR (OLD.removed_at IS NOT NULL AND NEW.removed_at IS NULL) THEN
    NEW.anchored_at := NEW.updated_at;
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE FUNCTION punctual_job_edited() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO punctual_cursor (job_id, settled_until, planned_until, plan_at, problem, starts)
  VALUES (NEW.id, NEW.created_at, NULL, '{epoch}+00', '', 0)
  ON CONFLICT (job_id) DO UPDATE SET planned_until = NULL, plan_at = '{epoch}+00';
  PERFORM pg_notify('{channel}', '');
  RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION punctual_task_edited() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE punctual_cursor SET planned_until = NULL, plan_at = '{epoch}+00'
  WHERE job_id = COALESCE(NEW.job_id, OLD.job_id)
    AND (planned_until IS NOT NULL OR plan_at IS DISTINCT FROM '{epoch}+00');
  IF FOUND THEN PERFORM pg_notify('{channel}', ''); END IF;
  RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION punctual_job_paused() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.paused_at IS NOT NULL AND OLD.paused_at IS DISTINCT FROM NEW.paused_at THEN
    INSERT INTO punctual_pause (job_id, began_at, ended_at, reason, backlog)
    VALUES (NEW.id, OLD.paused_at, GREATEST(OLD.paused_at, clock_timestamp()), OLD.pause_reason, 'none')
    ON CONFLICT (job_id, began_at) DO NOTHING;
  END IF;
  IF OLD.paused_until IS DISTINCT FROM NEW.paused_until THEN
    UPDATE punctual_cursor SET plan_at = '{epoch}+00' WHERE job_id = NEW.id;
  END IF;
  RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION punctual_called() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('{channel}', '');
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER punctual_job_stamped BEFORE UPDATE ON punctual_job
  FOR EACH ROW WHEN ({changed}) EXECUTE FUNCTION punctual_job_stamped();
CREATE OR REPLACE TRIGGER punctual_job_edited AFTER UPDATE ON punctual_job
  FOR EACH ROW WHEN ({changed}) EXECUTE FUNCTION punctual_job_edited();
CREATE OR REPLACE TRIGGER punctual_job_paused AFTER UPDATE ON punctual_job
  FOR EACH ROW WHEN ({paused}) EXECUTE FUNCTION punctual_job_paused();
CREATE OR REPLACE TRIGGER punctual_job_added AFTER INSERT ON punctual_job
  FOR EACH ROW EXECUTE FUNCTION punctual_job_edited();
CREATE OR REPLACE TRIGGER punctual_task_edited AFTER UPDATE ON punctual_task
  FOR EACH ROW WHEN ({task_changed}) EXECUTE FUNCTION punctual_task_edited();
CREATE OR REPLACE TRIGGER punctual_task_added AFTER INSERT OR DELETE ON punctual_task
  FOR EACH ROW EXECUTE FUNCTION punctual_task_edited();
-- Rows of a schedule are planned by a beat, ahead of time; all other new rows are due now.
CREATE OR REPLACE TRIGGER punctual_occurrence_called AFTER INSERT ON punctual_occurrence
  FOR EACH ROW WHEN (NEW.cause <> 'schedule') EXECUTE FUNCTION punctual_called();
"""

SQLITE = (
    "DROP TRIGGER IF EXISTS punctual_job_edited",
    "DROP TRIGGER IF EXISTS punctual_job_added",
    "DROP TRIGGER IF EXISTS punctual_task_edited",
    "DROP TRIGGER IF EXISTS punctual_task_added",
    "DROP TRIGGER IF EXISTS punctual_task_deleted",
    "DROP TRIGGER IF EXISTS punctual_job_resumed",
    "DROP TRIGGER IF EXISTS punctual_job_pause_end_changed",
    """
    CREATE TRIGGER punctual_job_edited AFTER UPDATE ON punctual_job WHEN {changed}
    BEGIN
      UPDATE punctual_job SET updated_at = strftime('%Y-%m-%d %H:%M:%f', 'now')
        WHERE id = NEW.id AND NEW.updated_at IS OLD.updated_at AND ({planned});
      UPDATE punctual_job SET version = OLD.version + 1 WHERE id = NEW.id AND NEW.version = OLD.version;
      UPDATE punctual_job SET anchored_at = updated_at WHERE id = NEW.id
        AND (NEW.schedule <> OLD.schedule OR (OLD.removed_at IS NOT NULL AND NEW.removed_at IS NULL));
      UPDATE punctual_cursor SET planned_until = NULL, plan_at = '{epoch}' WHERE job_id = NEW.id;
    END
    """,
    """
    CREATE TRIGGER punctual_job_resumed AFTER UPDATE ON punctual_job
    WHEN OLD.paused_at IS NOT NULL AND OLD.paused_at IS NOT NEW.paused_at
    BEGIN
      INSERT OR IGNORE INTO punctual_pause (job_id, began_at, ended_at, reason, backlog)
      VALUES (NEW.id, OLD.paused_at, MAX(OLD.paused_at, strftime('%Y-%m-%d %H:%M:%f', 'now')),
        OLD.pause_reason, 'none');
    END
    """,
    """
    CREATE TRIGGER punctual_job_pause_end_changed AFTER UPDATE ON punctual_job
    WHEN OLD.paused_until IS NOT NEW.paused_until
    BEGIN
      UPDATE punctual_cursor SET plan_at = '{epoch}' WHERE job_id = NEW.id;
    END
    """,
    """
    CREATE TRIGGER punctual_job_added AFTER INSERT ON punctual_job
    BEGIN
      INSERT OR IGNORE INTO punctual_cursor
        (job_id, settled_until, planned_until, plan_at, problem, starts)
      VALUES (NEW.id, NEW.created_at, NULL, '{epoch}', '', 0);
    END
    """,
    """
    CREATE TRIGGER punctual_task_edited AFTER UPDATE ON punctual_task WHEN {task_changed}
    BEGIN
      UPDATE punctual_cursor SET planned_until = NULL, plan_at = '{epoch}' WHERE job_id = NEW.job_id;
    END
    """,
    """
    CREATE TRIGGER punctual_task_added AFTER INSERT ON punctual_task
    BEGIN
      UPDATE punctual_cursor SET planned_until = NULL, plan_at = '{epoch}' WHERE job_id = NEW.job_id;
    END
    """,
    """
    CREATE TRIGGER punctual_task_deleted AFTER DELETE ON punctual_task
    BEGIN
      UPDATE punctual_cursor SET planned_until = NULL, plan_at = '{epoch}' WHERE job_id = OLD.job_id;
    END
    """,
)

# A session that writes or locks a row holds a lock on the table as well, stronger than a reader's.
LOCK_HOLDERS = """
SELECT holder.pid, holder.application_name, holder.state, clock_timestamp() - holder.xact_start,
    array_agg(DISTINCT relation.relname::text ORDER BY relation.relname::text),
    (SELECT count(*) FROM pg_stat_activity waiting
     WHERE waiting.wait_event_type = 'Lock' AND holder.pid = ANY(pg_blocking_pids(waiting.pid)))
FROM pg_stat_activity holder
JOIN pg_locks lock ON lock.pid = holder.pid AND lock.locktype = 'relation' AND lock.granted
JOIN pg_class relation ON relation.oid = lock.relation
WHERE holder.datname = current_database() AND holder.pid <> pg_backend_pid()
    AND holder.xact_start < clock_timestamp() - %s
    AND lock.mode <> 'AccessShareLock' AND relation.relkind = 'r' AND relation.relname LIKE 'punctual\\_%%'
GROUP BY holder.pid, holder.application_name, holder.state, holder.xact_start
ORDER BY holder.xact_start, holder.pid LIMIT 20
"""

# The columns a plan depends on. Not `paused_at`: a paused job is planned, and skipped when due.
COLUMNS = ("schedule", "config", "enabled", "removed_at")
# The columns of a version: planning writes the version that an edit by raw SQL left out (JOB-5).
JOB_COLUMNS = (*COLUMNS, "metadata")
TASK_COLUMNS = ("name", "function", "position", "config", "retired_at")
# A change of these ends a pause, or makes the job due: a beat that plans a job also ends its pause.
PAUSE_COLUMNS = ("paused_at", "paused_until")


def is_postgresql(connection: Any) -> bool:
    """Arrays, row locks and pipelines are used only there; elsewhere the ORM does the same."""
    return bool(connection.vendor == "postgresql")


def read_clock(connection: Any) -> Any:
    """The time as the driver returns it: aware from PostgreSQL, a text in UTC from SQLite."""
    with connection.cursor() as cursor:
        cursor.execute(CLOCK[connection.vendor])
        return cursor.fetchone()[0]


def read_lock_holders(connection: Any, min_age: timedelta) -> list[tuple[Any, ...]]:
    """Other sessions whose transaction began so long ago and which hold rows of our tables."""
    if not is_postgresql(connection):
        return []
    with connection.cursor() as cursor:
        cursor.execute(LOCK_HOLDERS, [min_age])
        return list(cursor.fetchall())


def install_triggers(*, using: str = "default", **_kwargs: Any) -> None:
    """Receiver of post_migrate; safe to repeat."""
    connection = connections[using]
    tables = connection.introspection.table_names()
    needed = {"job", "task", "pause", "cursor", "occurrence"}
    if not {f"punctual_{name}" for name in needed} <= set(tables):
        return
    with connection.cursor() as cursor:
        for statement in _trigger_statements(postgresql=is_postgresql(connection)):
            cursor.execute(statement)


def _trigger_statements(*, postgresql: bool) -> list[str]:
    differs = "IS DISTINCT FROM" if postgresql else "IS NOT"
    planned, changed, task_changed, paused = (
        " OR ".join(f"OLD.{column} {differs} NEW.{column}" for column in columns)
        for columns in (COLUMNS, JOB_COLUMNS, TASK_COLUMNS, PAUSE_COLUMNS)
    )
    values = {"planned": planned, "changed": changed, "task_changed": task_changed, "paused": paused}
    templates = (POSTGRESQL,) if postgresql else SQLITE
    return [template.format(epoch=EPOCH, channel=CHANNEL, **values) for template in templates]


def create_rules_function(
    schema_editor: Any, name: str, parameters: Iterable[str], rules: Mapping[str, str]
) -> bool:
    """Create a function that refuses a row and names the violated rule; False: this database needs none."""
    if not is_postgresql(schema_editor.connection):
        return False
    steps = "\n".join(
        f"IF NOT ({condition}) THEN RAISE check_violation"
        f" USING CONSTRAINT = '{rule}', MESSAGE = 'row violates check constraint \"{rule}\"'; END IF;"
        for rule, condition in rules.items()
    )
    statement = (
        f"CREATE OR REPLACE FUNCTION {name}({', '.join(parameters)}) RETURNS boolean"
        f" LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $rules$ BEGIN {steps} RETURN true; END $rules$"
    )
    schema_editor.execute(statement, None)
    return True


def drop_rules_function(schema_editor: Any, remove_check: Any, name: str, types: Iterable[str]) -> Any:
    """Return the last statement that removes the rules: the CHECK goes before the function that it calls."""
    if not is_postgresql(schema_editor.connection):
        return remove_check
    schema_editor.execute(remove_check)
    return f"DROP FUNCTION {name}({', '.join(types)})"
