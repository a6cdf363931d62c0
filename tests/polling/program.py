"""A user's program: `python -m tests.polling.program BEHAVIOUR FILE`; the cluster tests start and kill it.

Its callback appends one short line per event to FILE; the lines of several processes are in the order
in which they were written.
"""

import asyncio
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path

import django

LEASE = timedelta(seconds=3)
FAILURES = 12


def note(file: Path, word: str) -> None:
    with file.open("a") as lines:
        lines.write(f"{word} {os.getpid()}\n")


def count_of(file: Path, word: str) -> int:
    return file.read_text().count(word)


async def main(behaviour: str, file: Path) -> None:
    from punctual.polling import Registration, Scheduler  # noqa: PLC0415 - after django.setup()

    async def hang() -> None:
        note(file, "start")
        await asyncio.Event().wait()

    async def quick() -> None:
        note(file, "start")
        note(file, "end")

    async def flaky() -> None:
        note(file, "start")
        await asyncio.sleep(0.02)  # long enough for another process to see it running
        note(file, "end")
        if count_of(file, "end") <= FAILURES:
            raise ValueError("not yet")

    callback = {"hang": hang, "quick": quick, "flaky": flaky}[behaviour]
    scheduler = Scheduler(lease=LEASE)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await scheduler.initialize([Registration("task", "* * * * *", callback, timedelta())])
    note(file, "initialized")
    await stopped.wait()
    await scheduler.stop()
    note(file, "stopped")


if __name__ == "__main__":
    django.setup()
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
