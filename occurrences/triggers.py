"""Database triggers on the jobs table: any edit, raw SQL included, is planned anew at the next tick (OCC-8).

They live here and not in a migration because SQLite drops a table's triggers whenever Django rebuilds
the table; they are put back after every `migrate`.
"""

from typing import Any

from django.db import connections

CHANNEL = "punctual"  # beats listen here; see beat.wakeup
EPOCH = "1970-01-01 00:00:00"  # before any clock: due at once

POSTGRESQL = """
CREATE OR REPLACE FUNCTION punctual_job_stamped() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- Whoever edits without saying when (raw SQL) edits now.
  IF NEW.updated_at = OLD.updated_at THEN NEW.updated_at := clock_timestamp(); END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE FUNCTION punctual_job_edited() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO occurrences_cursor (job_id, settled_until, planned_until, plan_at, problem, starts)
  VALUES (NEW.id, NEW.created_at, NULL, '{epoch}+00', '', 0)
  ON CONFLICT (job_id) DO UPDATE SET planned_until = NULL, plan_at = '{epoch}+00';
  PERFORM pg_notify('{channel}', '');
  RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION punctual_called() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('{channel}', '');
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER punctual_job_stamped BEFORE UPDATE ON jobs_job
  FOR EACH ROW WHEN ({changed}) EXECUTE FUNCTION punctual_job_stamped();
CREATE OR REPLACE TRIGGER punctual_job_edited AFTER UPDATE ON jobs_job
  FOR EACH ROW WHEN ({changed}) EXECUTE FUNCTION punctual_job_edited();
CREATE OR REPLACE TRIGGER punctual_job_added AFTER INSERT ON jobs_job
  FOR EACH ROW EXECUTE FUNCTION punctual_job_edited();
-- What a schedule plans lies ahead and a beat knows it; what anybody else adds is due now.
CREATE OR REPLACE TRIGGER punctual_occurrence_called AFTER INSERT ON occurrences_occurrence
  FOR EACH ROW WHEN (NEW.cause <> 'schedule') EXECUTE FUNCTION punctual_called();
"""

SQLITE = (
    "DROP TRIGGER IF EXISTS punctual_job_edited",
    "DROP TRIGGER IF EXISTS punctual_job_added",
    """
    CREATE TRIGGER punctual_job_edited AFTER UPDATE ON jobs_job WHEN {changed}
    BEGIN
      UPDATE jobs_job SET updated_at = strftime('%Y-%m-%d %H:%M:%f', 'now')
        WHERE id = NEW.id AND NEW.updated_at IS OLD.updated_at;
      UPDATE occurrences_cursor SET planned_until = NULL, plan_at = '{epoch}' WHERE job_id = NEW.id;
    END
    """,
    """
    CREATE TRIGGER punctual_job_added AFTER INSERT ON jobs_job
    BEGIN
      INSERT OR IGNORE INTO occurrences_cursor
        (job_id, settled_until, planned_until, plan_at, problem, starts)
      VALUES (NEW.id, NEW.created_at, NULL, '{epoch}', '', 0);
    END
    """,
)

# What a plan is made of. Pausing is not among it: a paused job is planned, and skipped when due.
COLUMNS = ("schedule", "config", "enabled", "removed_at")


def install(*, using: str = "default", **_kwargs: Any) -> None:
    """Receiver of post_migrate; safe to repeat."""
    connection = connections[using]
    tables = connection.introspection.table_names()
    if not {"jobs_job", "occurrences_cursor", "occurrences_occurrence"} <= set(tables):
        return
    with connection.cursor() as cursor:
        for statement in _statements(connection.vendor):
            cursor.execute(statement)


def _statements(vendor: str) -> list[str]:
    differs = "IS DISTINCT FROM" if vendor == "postgresql" else "IS NOT"
    changed = " OR ".join(f"OLD.{column} {differs} NEW.{column}" for column in COLUMNS)
    templates = (POSTGRESQL,) if vendor == "postgresql" else SQLITE
    return [template.format(epoch=EPOCH, changed=changed, channel=CHANNEL) for template in templates]
