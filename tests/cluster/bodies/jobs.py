"""Functions that behave, and functions that do not. What they do is left in the table of effects."""

import asyncio
import os
import random
import signal
import time
from contextlib import suppress

from django.db import connection
from django.utils import timezone

from jobs import HandBack, Job
from jobs.context import Context
from tests.cluster.tools.jobs import note

bodies = Job("bodies", "@once 2999-01-01T00:00:00Z")
FOREVER = 600.0


def begun(source: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM cluster_app_effect WHERE source = %s", [source])
        return int(cursor.fetchone()[0])


@bodies.task
def loops(ctx: Context) -> None:
    """Stuck in Python; whatever is raised in it goes nowhere."""
    note(ctx, "begin")
    while ctx.attempt == 0:
        with suppress(BaseException):
            while True:
                pass


@bodies.task
def sleeps_through_exit(ctx: Context) -> None:
    """Stuck in a call that can be interrupted, and does not want to be."""
    note(ctx, "begin")
    while ctx.attempt == 0:
        with suppress(BaseException):
            time.sleep(FOREVER)


@bodies.task
def hangs_in_c(ctx: Context) -> None:
    """Stuck in a call that never looks at a signal and never lets go of the interpreter."""
    note(ctx, "begin")
    if ctx.attempt == 0:
        sum(range(10**15))


@bodies.task
def slow(ctx: Context) -> None:
    """Far too slow, but it obeys."""
    note(ctx, "begin")
    if ctx.attempt == 0:
        try:
            time.sleep(FOREVER)
        finally:
            note(ctx, "interrupted")


@bodies.task
async def slow_coroutine(ctx: Context) -> None:
    if ctx.attempt == 0:
        await asyncio.sleep(FOREVER)


@bodies.task
def three_seconds(ctx: Context) -> None:
    note(ctx, "begin")
    time.sleep(3)
    note(ctx, "end")


@bodies.task
def quick(ctx: Context) -> None:
    note(ctx, "end")


@bodies.task
def poison(ctx: Context) -> None:
    note(ctx, "begin")
    os.kill(os.getpid(), signal.SIGKILL)


@bodies.task
def waits(ctx: Context) -> None:
    """Until it is told that it is not wanted any more."""
    note(ctx, "begin")
    while not ctx.canceled:
        time.sleep(0.02)
    note(ctx, "canceled", at=timezone.now())  # of this very moment, however long the statement waits


@bodies.task
def deaf(ctx: Context) -> None:
    """The first attempt neither looks at what it is told nor lets itself be interrupted."""
    note(ctx, "begin")
    while ctx.attempt == 0:
        with suppress(BaseException):
            time.sleep(FOREVER)


@bodies.task
def hands_back(ctx: Context) -> None:
    """Goes on until its worker is to stop; the second attempt ends by itself."""
    note(ctx, "begin")
    while ctx.attempt == 0 and not ctx.stopping:
        time.sleep(0.02)
    if ctx.stopping:
        raise HandBack("the worker stops")


@bodies.task
def fails_at_last(ctx: Context) -> None:
    """Once as many others as it is told have begun."""
    while begun(f"{ctx.job}/begin") < int(ctx.metadata["others"]):
        time.sleep(0.05)
    note(ctx, "failed")
    raise ValueError("on purpose")


@bodies.task
def short(ctx: Context) -> None:
    """A few hundredths of a second, so that a kill at random hits it in all its stages."""
    note(ctx, "begin")
    time.sleep(random.uniform(0, 0.05))  # noqa: S311 - not for a secret


@bodies.task
def lasts(ctx: Context) -> None:
    """As long as it is told, the first time."""
    note(ctx, "begin")
    time.sleep(float(ctx.metadata["seconds"]) if ctx.attempt == 0 else 0)
    note(ctx, "end")


@bodies.task
def fails_once(ctx: Context) -> None:
    note(ctx, "begin")
    if ctx.attempt == 0:
        raise ValueError("on purpose")


@bodies.task(transactional=True)
def pays(ctx: Context) -> None:
    """Its effect must be there once, whatever becomes of its worker."""
    note(ctx, "paid")
    time.sleep(float(ctx.metadata.get("seconds", "0")) if ctx.attempt == 0 else 0)


@bodies.task
def ten_seconds(ctx: Context) -> None:
    """Suddenly slow."""
    note(ctx, "begin")
    time.sleep(10)
    note(ctx, "end")


@bodies.task
def raises(ctx: Context) -> None:
    raise RuntimeError("as ever")


@bodies.task
def poison_once(ctx: Context) -> None:
    """Takes its process down the first time."""
    note(ctx, "begin")
    if ctx.attempt == 0:
        os.kill(os.getpid(), signal.SIGKILL)
