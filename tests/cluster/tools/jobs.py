"""What inserted jobs may run. The one job declared here never comes up by itself.

Effects go to the table of `tests.cluster.app` by plain SQL: that app, and with it its jobs, is not
installed where this one is.
"""

import time
from datetime import datetime

from django.db import connection

from jobs import Job
from jobs.clock import database_now
from jobs.context import Context
from jobs.ids import parsed

toolbox = Job("toolbox", "@once 2999-01-01T00:00:00Z")


def note(ctx: Context, what: str, *, at: datetime | None = None) -> None:
    values = (f"{ctx.job}/{what}", parsed("run", ctx.run_id).hex, ctx.attempt, at or database_now())
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO cluster_app_effect (source, run_id, attempt, at) VALUES (%s, %s, %s, %s)", values
        )


@toolbox.task
def effect(ctx: Context) -> None:
    """Leaves one row, and is done."""
    note(ctx, "done")


@toolbox.task(transactional=True)
def once(ctx: Context) -> None:
    """Leaves one row that commits together with the record of its success."""
    note(ctx, "done")


@toolbox.task
def nothing(ctx: Context) -> None:
    """For jobs whose messages are counted and never worked off."""


@toolbox.task
def slow(ctx: Context) -> None:
    """Works for `metadata["seconds"]`, and stops early when it is told to."""
    note(ctx, "begin")
    until = time.monotonic() + float(ctx.metadata["seconds"])
    while time.monotonic() < until and not ctx.canceled:
        time.sleep(0.02)
    note(ctx, "end")
