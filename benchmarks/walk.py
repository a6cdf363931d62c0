"""Print the path of one run through the code, from the tick that fires it to its settled row.

    python benchmarks/walk.py [--failure] [--json] [--revision REV]

Starts its own PostgreSQL and Redis-compatible server. An hourly job of one task runs some times to fill
caches, then under a profiler: the tick (fire, dispatch, plan; no sweeping), and the Celery task with the
message that the tick sent. With --failure the first attempt fails, and a second tick releases the retry.

Counted are functions with a `def` of their own in the files of this repository, without benchmarks: a
lambda or a comprehension belongs to the function around it, and methods that dataclasses generate have no
file. A generator is one call, however often it is resumed. Statements are counted from PostgreSQL's log.
Nothing is asserted.
"""

# ruff: noqa: PLC0415 -- Django's models can be imported once its settings are complete
from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from types import CodeType, FrameType

# Without this, the folder of this script would come first on the path.
ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)

from benchmarks.road_app import messages  # noqa: E402
from benchmarks.stack import stack  # noqa: E402
from benchmarks.trees import unpacked  # noqa: E402

HOUR = timedelta(hours=1)
WARM_UP = 10  # runs; psycopg prepares a statement when it is executed for the sixth time
TRACED = 3  # runs; the shortest is reported, because the clock and the pace of a task are due now and then
STATEMENT = re.compile(r"LOG:  (?:statement|execute [^:]*):\W+(\w+)")
TRANSACTION = {"BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE"}
NOT_OURS = ("benchmarks", "tests", ".venv")


@dataclass
class Walk:
    """The functions called, in order of their first call, and the statements executed."""

    calls: Counter[CodeType] = field(default_factory=Counter)
    statements: Counter[str] = field(default_factory=Counter)
    _entries: dict[CodeType, int] = field(default_factory=dict)  # the offset at which the first call began

    def note(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and not code.co_name.startswith("<") and module_of(code.co_filename):
            # The profiler sees a generator that goes on after a `yield` as a call, at another offset.
            self.calls[code] += frame.f_lasti == self._entries.setdefault(code, frame.f_lasti)

    @property
    def modules(self) -> dict[str, dict[str, int]]:
        modules: dict[str, dict[str, int]] = {}
        for code, count in self.calls.items():
            modules.setdefault(module_of(code.co_filename), {})[code.co_qualname] = count
        return modules

    @property
    def totals(self) -> dict[str, int]:
        transactional = sum(self.statements[word] for word in TRANSACTION)
        return {
            "modules": len(self.modules),
            "functions": len(self.calls),
            "calls": self.calls.total(),
            "statements": self.statements.total() - transactional,
            "transaction_statements": transactional,
        }


@cache
def module_of(filename: str) -> str:
    """The path of a file of ours below the root, without the links in `punctual/`; empty for other files."""
    path = Path(filename).resolve()
    if filename.startswith("<") or not path.is_relative_to(ROOT):
        return ""
    relative = path.relative_to(ROOT)
    return "" if relative.parts[0] in NOT_OURS else str(relative)


@contextmanager
def traced(walk: Walk, log: Path) -> Iterator[None]:
    start = log.stat().st_size
    threading.setprofile(walk.note)
    sys.setprofile(walk.note)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type] # removes it
    walk.statements.update(word.upper() for word in STATEMENT.findall(log.read_bytes()[start:].decode()))


def run_hour(now: datetime, walk: Walk, log: Path) -> None:
    """Everything that happens to the occurrence of one hour; the work between the steps is not traced."""
    from punctual.beat.tick import run_once
    from punctual.occurrences.models import TaskRun

    while True:
        with traced(walk, log):
            run_once(now, sweeping=False)
        (arguments,) = messages.received()
        with traced(walk, log):
            messages.deliver(*arguments)
        run = TaskRun.objects.latest("occurrence__scheduled_for")
        if run.finished_at:
            return
        # Workers read the real clock, which is days ahead of this hour: bring the retry back to it.
        now += timedelta(seconds=30)
        TaskRun.objects.filter(id=run.id).update(available_at=now)


def walk_once(log: Path) -> Walk:
    from punctual.beat.tick import run_once
    from punctual.jobs.clock import database_now
    from punctual.jobs.declaration.sync import sync
    from punctual.occurrences.models import Occurrence

    now = database_now().replace(minute=0, second=0, microsecond=0) - timedelta(days=2)
    messages.prepare()
    sync(now + timedelta(minutes=30))
    run_once(now + timedelta(minutes=30), sweeping=False)
    for number in range(WARM_UP):
        run_hour(now + (number + 1) * HOUR, Walk(), log)
    walks = [Walk() for _ in range(TRACED)]
    for number, walk in enumerate(walks):
        run_hour(now + (WARM_UP + number + 1) * HOUR, walk, log)
    states = Occurrence.objects.filter(finished_at__isnull=False).values_list("state", flat=True)
    if list(states) != ["completed"] * (WARM_UP + TRACED):
        raise RuntimeError(f"the occurrences ended as {list(states)}")
    return min(walks, key=lambda walk: walk.statements.total())


def show(walk: Walk) -> None:
    for module, functions in walk.modules.items():
        print(module)
        for name, count in functions.items():
            print(f"    {name}" + (f" × {count}" if count > 1 else ""))
    kinds = ", ".join(f"{count} {word}" for word, count in walk.statements.most_common())
    totals = walk.totals
    print(
        f"{totals['modules']} modules, {totals['functions']} functions, {totals['statements']} SQL statements"
    )
    print(
        f"({totals['calls']} calls; {totals['transaction_statements']} more to control transactions: {kinds})"
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--failure", action="store_true", help="the first attempt fails and is retried")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--revision", help="of the code to walk through, instead of this tree")
    return parser.parse_args()


def main(options: argparse.Namespace) -> None:
    if options.revision:
        words = [f"--{name}" for name in ("failure", "json") if getattr(options, name)]
        with unpacked(options.revision) as tree:
            subprocess.run([sys.executable, "benchmarks/walk.py", *words], cwd=tree, check=True)
        return
    fails = {"ROAD_FLEET_FAILS": "1"} if options.failure else {}
    environment = {"PUNCTUAL_APPS": "benchmarks.road_app", "ROAD_FLEET": "1", "LOG_LEVEL": "ERROR", **fails}
    with stack(postgres={"log_statement": "all"}, **environment) as servers:
        walk = walk_once(servers.folder / "postgres.log")
    if options.json:
        report = {"modules": walk.modules, "statements": walk.statements, "totals": walk.totals}
        print(json.dumps(report, indent=1))
    else:
        show(walk)


if __name__ == "__main__":
    main(arguments())
