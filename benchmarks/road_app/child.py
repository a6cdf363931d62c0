"""Measure one tree: migrate a database, warm up, then measure the scenarios that are asked for on stdin.

Started by `benchmarks/road.py` in the folder of the tree. Each line of input is the name of a scenario; the
answer is a line of JSON. Two such processes, measured in turn, see the same load of the machine.
"""

# ruff: noqa: PLC0415 -- Django's models can be imported once its settings are complete
from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.road_app import messages

FLEET = 1_000  # jobs due in the measured tick; benchmarks/road.py passes it as ROAD_FLEET
BUNDLE = 50
# At the start of each measurement: psycopg prepares statements, and PostgreSQL plans them anew after ANALYZE.
LEAD = 12  # messages


@dataclass(frozen=True)
class Scenario:
    """`messages` are measured; each carries `size` runs, or is one of `fan` messages of its occurrence."""

    job: str
    messages: int
    size: int = 1
    fan: int = 1


SCENARIOS = {
    "success": Scenario("plain", 300),
    "failure with retry": Scenario("failing", 100),
    "transactional success": Scenario("transactional", 150),
    "one of ten parallel": Scenario("parallel", 150, fan=10),
    "bundle of fifty": Scenario("plain", 12, size=BUNDLE),
}
TICK = f"tick of {FLEET:,}"


@dataclass
class Clocks:
    """Processor seconds of this process and of PostgreSQL's processes for it, and wall-clock seconds."""

    client: float = 0.0
    server: float = 0.0
    wall: float = 0.0

    def measure(self, step: Callable[[], object]) -> None:
        """The connections must be the same before and after: a process that ended has no figures."""
        before = backends()
        server, client, wall = server_seconds(before), time.process_time(), time.perf_counter()
        step()
        self.wall += time.perf_counter() - wall
        self.client += time.process_time() - client
        self.server += server_seconds(before) - server
        if (after := backends()) != before:
            raise RuntimeError(f"connections came or went: {before} before, {after} after")

    def per(self, items: int) -> dict[str, float]:
        """Milliseconds per item."""
        values = {"client": self.client, "server": self.server, "wall": self.wall}
        return {name: 1000 * seconds / items for name, seconds in values.items()}


def backends() -> list[int]:
    """The server's processes for this database, whatever connections of this process they belong to."""
    rows = execute(
        "SELECT pid FROM pg_stat_activity"
        " WHERE datname = current_database() AND backend_type = 'client backend' ORDER BY pid"
    )
    return [pid for (pid,) in rows]


def server_seconds(pids: Sequence[int]) -> float:
    """From schedstat, in nanoseconds; /proc/<pid>/stat counts in hundredths of a second."""
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in pids) / 1e9


def execute(sql: str) -> list[Any]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall() if cursor.description else []


def clean_up() -> None:
    """Only planned occurrences remain, and the tables are as small as at the start."""
    from punctual.occurrences.models import Occurrence

    Occurrence.objects.exclude(state="pending").delete()
    execute("VACUUM ANALYZE")


class Tree:
    """The tree this process runs in, with its jobs written and their first occurrences planned."""

    def __init__(self) -> None:
        from punctual.beat.tick import run_once
        from punctual.jobs.clock import database_now
        from punctual.jobs.declaration.sync import sync

        messages.prepare()
        self._run_once, self._now = run_once, database_now
        sync(database_now())
        run_once(database_now(), sweeping=False)
        list(messages.received())
        # Ticks of the fleet are simulated, ahead of the real time at which the other jobs run.
        self._hour: datetime = database_now().replace(minute=0, second=0, microsecond=0)

    def warm_up(self) -> None:
        """The fleet first: its next instants are then hours ahead of any other tick."""
        for name in (TICK, *SCENARIOS, *SCENARIOS):
            self.measure(name)

    def measure(self, name: str) -> dict[str, float]:
        return self._measure_tick() if name == TICK else self._measure_work(SCENARIOS[name])

    def _measure_work(self, scenario: Scenario) -> dict[str, float]:
        clean_up()
        work = self._load(scenario, scenario.messages + LEAD)
        for ids in work[:LEAD]:
            messages.deliver(ids)
        clocks = Clocks()
        clocks.measure(lambda: [messages.deliver(ids) for ids in work[LEAD:]])
        self._check(scenario)
        return clocks.per(scenario.messages)

    def _load(self, scenario: Scenario, count: int) -> list[list[str]]:
        """Trigger occurrences, let a tick fire them, and return the run ids of each message."""
        from benchmarks.road_app.jobs import OWNERS
        from punctual import trigger

        names = [f"plain {number}" for number in range(OWNERS)] if scenario.job == "plain" else [scenario.job]
        for number in range(-(-count * scenario.size // scenario.fan)):
            trigger(names[number % len(names)])
        self._run_once(self._now(), sweeping=False)
        ids = [id_ for (sent, *_) in messages.received() for id_ in sent]
        work = [ids[at : at + scenario.size] for at in range(0, len(ids), scenario.size)]
        if len(work) < count:
            raise RuntimeError(
                f"{len(ids)} runs of {scenario.job} were sent, expected {count * scenario.size}"
            )
        return work[:count]

    def _check(self, scenario: Scenario) -> None:
        from punctual.occurrences.models import TaskRun

        expected = (scenario.messages + LEAD) * scenario.size
        ended = "retry" if scenario.job == "failing" else "success"
        if (count := TaskRun.objects.filter(state=ended).count()) != expected:
            raise RuntimeError(f"{count} runs of {scenario.job} are {ended}, expected {expected}")

    def _measure_tick(self) -> dict[str, float]:
        """The second tick on the beat's connection is measured; it has the beat's session settings."""
        from django.db import connection

        from punctual.beat.postgres import Session

        Session().configure()
        clocks = Clocks()
        for measure in (lambda tick: tick(), clocks.measure):
            clean_up()
            self._hour += timedelta(hours=1)
            measure(self._tick_fleet)
            if (sent := sum(1 for _ in messages.received())) != FLEET:
                raise RuntimeError(f"the tick sent {sent} messages, expected {FLEET}")
        connection.close()
        return clocks.per(1)

    def _tick_fleet(self) -> None:
        self._run_once(self._hour, sweeping=False)


def main() -> None:
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    tree = Tree()
    tree.warm_up()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(tree.measure(line.strip())), flush=True)


if __name__ == "__main__":
    main()
