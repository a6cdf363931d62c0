"""Hooks that never return, sleep, kill their process, fork, or are async. They write notes as tasks do."""

import asyncio
import os
import signal
import time
from contextlib import suppress
from typing import Any

from django.db import connection
from django.utils import timezone

from punctual import hook

FIVE_MINUTES = 300.0


def note(argument: Any, what: str) -> None:
    """`argument` is an occurrence, before it starts, or its report."""
    job = argument["job"] if isinstance(argument, dict) else argument.job.name
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO cluster_app_effect (source, attempt, at) VALUES (%s, 0, %s)",
            [f"{job}/{what}", timezone.now()],
        )


@hook
def never_returns(argument: Any) -> None:
    note(argument, "hook")
    while True:
        with suppress(BaseException):
            while True:
                pass


@hook
def sleeps(argument: Any) -> None:
    note(argument, "hook")
    time.sleep(FIVE_MINUTES)


@hook
def exits(argument: Any) -> None:
    note(argument, "hook")
    os._exit(3)


@hook
def killed(argument: Any) -> None:
    note(argument, "hook")
    os.kill(os.getpid(), signal.SIGKILL)


@hook
def forks(argument: Any) -> None:
    """Both processes return."""
    note(argument, "hook")
    os.fork()


@hook
async def awaited(argument: Any) -> None:
    await asyncio.sleep(0.05)
    await asyncio.to_thread(note, argument, "hook")


@hook
async def never_awakes(argument: Any) -> None:
    await asyncio.to_thread(note, argument, "hook")
    await asyncio.sleep(FIVE_MINUTES)


@hook
def raises(argument: Any) -> None:
    note(argument, "hook")
    raise RuntimeError("the hook is broken")


@hook
def ten_seconds(argument: Any) -> None:
    note(argument, "hook")
    time.sleep(10)
    note(argument, "hook is over")
