"""Functions for jobs that tests insert as rows. The job declared here is never due.

Effects are written by plain SQL to the table of `tests.cluster.app`, because that app is not installed
together with this one.
"""

import os
import time
from datetime import datetime
from pathlib import Path

from django.db import connection

from punctual import Job, NonRetryable
from punctual.jobs.clock import database_now
from punctual.jobs.context import Context
from punctual.jobs.ids import parse_id

toolbox = Job("toolbox", "@once 2999-01-01T00:00:00Z")


def note(ctx: Context, what: str, *, at: datetime | None = None) -> None:
    values = (f"{ctx.job}/{what}", parse_id("run", ctx.run_id).hex, ctx.attempt, at or database_now())
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO cluster_app_effect (source, run_id, attempt, at) VALUES (%s, %s, %s, %s)", values
        )


@toolbox.task
def effect(ctx: Context) -> None:
    """Write one row."""
    note(ctx, "done")


@toolbox.task(transactional=True)
def once(ctx: Context) -> None:
    """Write one row, committed together with the record of success."""
    note(ctx, "done")


@toolbox.task
def nothing(ctx: Context) -> None:
    """Do nothing; for jobs whose messages are only counted."""


@toolbox.task
def slow(ctx: Context) -> None:
    """Work for `metadata["seconds"]`; stop early when canceled."""
    note(ctx, "begin")
    until = time.monotonic() + float(ctx.metadata["seconds"])
    while time.monotonic() < until and not ctx.canceled:
        time.sleep(0.02)
    note(ctx, "end")


@toolbox.task
def tells(ctx: Context) -> None:
    """Write its task and the metadata it sees, and work for `metadata["seconds"]`."""
    note(ctx, f"tells {ctx.task} of {ctx.metadata['team']}")
    time.sleep(float(ctx.metadata["seconds"]))


@toolbox.task
def answers(ctx: Context) -> None:
    note(ctx, f"answers {ctx.task} of {ctx.metadata['team']}")


@toolbox.task
def broken(ctx: Context) -> None:
    raise NonRetryable("broken on purpose")


@toolbox.task
def without_database(ctx: Context) -> None:
    """Work for `metadata["seconds"]`, then write a line to a file: the database may be away."""
    time.sleep(float(ctx.metadata["seconds"]))
    with (Path(os.environ["PUNCTUAL_VAR"]) / "finished").open("a") as file:
        file.write(f"{parse_id('run', ctx.run_id)} {ctx.attempt}\n")
