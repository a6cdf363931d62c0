"""Tasks that succeed, fail, hang or kill their process. They write notes to the table of effects."""

import asyncio
import os
import random
import signal
import time
from contextlib import suppress

from django.db import connection
from django.utils import timezone

from punctual import HandBack, Job
from punctual.jobs.context import Context
from tests.cluster.behaviours import hooks, hostile
from tests.cluster.tools.jobs import note

__all__ = ["hooks", "hostile"]

behaviours = Job("behaviours", "@once 2999-01-01T00:00:00Z")
HANG_SECONDS = 600.0


def count_notes(source: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM cluster_app_effect WHERE source = %s", [source])
        return int(cursor.fetchone()[0])


@behaviours.task
def loops(ctx: Context) -> None:
    """Hang in Python code, suppressing every exception."""
    note(ctx, "begin")
    while ctx.attempt == 0:
        with suppress(BaseException):
            while True:
                pass


@behaviours.task
def sleeps_through_exit(ctx: Context) -> None:
    """Hang in an interruptible call, suppressing every exception."""
    note(ctx, "begin")
    while ctx.attempt == 0:
        with suppress(BaseException):
            time.sleep(HANG_SECONDS)


@behaviours.task
def hangs_in_c(ctx: Context) -> None:
    """Hang in a C call that handles no signal and holds the interpreter lock."""
    note(ctx, "begin")
    if ctx.attempt == 0:
        sum(range(10**15))


@behaviours.task
def slow(ctx: Context) -> None:
    """Run far too long, but allow interruption."""
    note(ctx, "begin")
    if ctx.attempt == 0:
        try:
            time.sleep(HANG_SECONDS)
        finally:
            note(ctx, "interrupted")


@behaviours.task
async def slow_coroutine(ctx: Context) -> None:
    if ctx.attempt == 0:
        await asyncio.sleep(HANG_SECONDS)


@behaviours.task
def three_seconds(ctx: Context) -> None:
    note(ctx, "begin")
    time.sleep(3)
    note(ctx, "end")


@behaviours.task
def quick(ctx: Context) -> None:
    note(ctx, "end")


@behaviours.task
def poison(ctx: Context) -> None:
    note(ctx, "begin")
    os.kill(os.getpid(), signal.SIGKILL)


@behaviours.task
def waits(ctx: Context) -> None:
    """Run until canceled."""
    note(ctx, "begin")
    while not ctx.canceled:
        time.sleep(0.02)
    note(ctx, "canceled", at=timezone.now())  # the current time, even if the statement has to wait


@behaviours.task
def deaf(ctx: Context) -> None:
    """In the first attempt, ignore cancellation and suppress every exception."""
    note(ctx, "begin")
    while ctx.attempt == 0:
        with suppress(BaseException):
            time.sleep(HANG_SECONDS)


@behaviours.task
def hands_back(ctx: Context) -> None:
    """In the first attempt, run until the worker stops."""
    note(ctx, "begin")
    while ctx.attempt == 0 and not ctx.stopping:
        time.sleep(0.02)
    if ctx.stopping:
        raise HandBack("the worker stops")


@behaviours.task
def fails_at_last(ctx: Context) -> None:
    """Fail once `metadata["others"]` other tasks have started."""
    while count_notes(f"{ctx.job}/begin") < int(ctx.metadata["others"]):
        time.sleep(0.05)
    note(ctx, "failed")
    raise ValueError("on purpose")


@behaviours.task
def short(ctx: Context) -> None:
    """Run for up to 50 ms, so that random kills hit it in every stage."""
    note(ctx, "begin")
    time.sleep(random.uniform(0, 0.05))  # noqa: S311 - not for a secret


@behaviours.task
def lasts(ctx: Context) -> None:
    """In the first attempt, run for `metadata["seconds"]`."""
    note(ctx, "begin")
    time.sleep(float(ctx.metadata["seconds"]) if ctx.attempt == 0 else 0)
    note(ctx, "end")


@behaviours.task
def until_released(ctx: Context) -> None:
    """Run until the test writes the note `release`."""
    note(ctx, "begin")
    while not count_notes(f"{ctx.job}/release"):
        time.sleep(0.05)
    note(ctx, "end")


@behaviours.task
def fails_once(ctx: Context) -> None:
    note(ctx, "begin")
    if ctx.attempt == 0:
        raise ValueError("on purpose")


@behaviours.task(transactional=True)
def pays(ctx: Context) -> None:
    """Write one effect, which must exist once even if the worker dies."""
    note(ctx, "paid")
    time.sleep(float(ctx.metadata.get("seconds", "0")) if ctx.attempt == 0 else 0)


@behaviours.task
def ten_seconds(ctx: Context) -> None:
    """Run for ten seconds, although measured as short."""
    note(ctx, "begin")
    time.sleep(10)
    note(ctx, "end")


@behaviours.task
def raises(ctx: Context) -> None:
    raise RuntimeError("on purpose")


@behaviours.task
def poison_once(ctx: Context) -> None:
    """Kill its process in the first attempt."""
    note(ctx, "begin")
    if ctx.attempt == 0:
        os.kill(os.getpid(), signal.SIGKILL)


@behaviours.task
def notes_backend(ctx: Context) -> None:
    """Note the server process of its connection, and leave a search path behind."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        note(ctx, f"backend-{cursor.fetchone()[0]}")
        cursor.execute("SET search_path = nowhere")
