"""Compare the processor time of a run, from claim to end, and of a tick between two versions of the code.

    python benchmarks/road.py [--before REV] [--rounds N] [--json]

Starts its own PostgreSQL, with a database for each version, and a Redis-compatible server. Each version has a
process of its own. They measure in turn, so that both see the same load of the machine. A measured message
is the call of the Celery task's body; its figure is the processor time of the client and of PostgreSQL's
process for it. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

# Without this, the folder of this script would come first on the path.
ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)

import psycopg  # noqa: E402

from benchmarks.road_app.child import BUNDLE, FLEET, SCENARIOS, TICK  # noqa: E402
from benchmarks.trees import describe, unpacked  # noqa: E402
from tests.guardian import Guardian  # noqa: E402
from tests.servers import install_postgres, make_folder, run_postgres, start_valkey  # noqa: E402

BEFORE = "52ded0c"
ROUNDS = 5
# A vacuum in the middle of a measurement would distort it; each one begins with its own vacuum.
POSTGRES = {"autovacuum": "off", "shared_buffers": "256MB", "max_wal_size": "4GB"}


class Servers(NamedTuple):
    folder: Path
    guardian: Guardian
    postgres: str
    valkey: str


@contextmanager
def servers() -> Iterator[Servers]:
    guardian, folder = Guardian(), make_folder("punctual-bench-")
    guardian.remove(folder)
    try:
        database = run_postgres(install_postgres(folder), guardian, **POSTGRES)
        yield Servers(folder, guardian, database.url, start_valkey(folder, guardian).url)
    finally:
        guardian.close()


class Child:
    """A process that measures one tree, with a database of PostgreSQL and one of the broker for itself."""

    def __init__(self, tree: Path, name: str, number: int, servers: Servers) -> None:
        with psycopg.connect(
            servers.postgres.replace("/punctual", "/postgres"), autocommit=True
        ) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        self.log = servers.folder / f"{name}.log"
        environment = {
            "DATABASE_URL": servers.postgres.replace("/punctual", f"/{name}"),
            "BROKER_URL": f"{servers.valkey}?virtual_host={number}",
            "SECRET_KEY": secrets.token_urlsafe(64),
            "DJANGO_SETTINGS_MODULE": "scheduler_project.settings",
            "PUNCTUAL_APPS": "benchmarks.road_app",
            "PUNCTUAL_VAR": str(servers.folder),
            "ROAD_FLEET": str(FLEET),
            "WORKER_SLOTS": str(10**6),  # so many that no two runs share a message, however short they are
            "LOG_LEVEL": "WARNING",
        }
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.road_app.child"],
                cwd=tree,
                env={**os.environ, **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        servers.guardian.watch(self.process.pid)

    def answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the measuring process ended:\n{self.log.read_text()[-3000:]}")
        return json.loads(line)

    def measure(self, scenario: str) -> dict[str, float]:
        assert self.process.stdin is not None
        print(scenario, file=self.process.stdin, flush=True)
        figures: dict[str, float] = self.answer()
        return figures


Rounds = dict[str, dict[str, list[dict[str, float]]]]  # scenario, version, one per round


def measure(before: Path, servers: Servers, rounds: int) -> Rounds:
    trees = {"before": before, "after": ROOT}
    children = {}
    for number, (name, tree) in enumerate(trees.items()):
        children[name] = Child(tree, name, number, servers)
        children[name].answer()  # it has migrated and warmed up; one after the other
    results: Rounds = {name: {version: [] for version in trees} for name in (*SCENARIOS, TICK)}
    for number in range(rounds):
        order = list(trees) if number % 2 else list(reversed(trees))
        for name, versions in results.items():
            for version in order:
                versions[version].append(children[version].measure(name))
    for child in children.values():
        child.process.communicate()
        servers.guardian.forget(child.process.pid)
    return results


class Figure(NamedTuple):
    """Milliseconds of one scenario and version over all rounds."""

    median: float
    least: float
    most: float
    client: float
    server: float

    def __str__(self) -> str:
        return f"{self.median:7.2f} ({self.least:.2f}–{self.most:.2f})"


def figure(rounds: Sequence[dict[str, float]], *clocks: str) -> Figure:
    values = [sum(item[clock] for clock in clocks) for item in rounds]
    parts = (median(item[clock] for item in rounds) for clock in ("client", "server"))
    return Figure(median(values), min(values), max(values), *parts)


def figures(results: Rounds) -> dict[str, dict[str, Figure]]:
    """Processor time of client and server together; of the tick the wall-clock time, too."""
    table = {
        name: {version: figure(rounds, "client", "server") for version, rounds in versions.items()}
        for name, versions in results.items()
    }
    table[f"{TICK}, wall-clock"] = {
        version: figure(rounds, "wall") for version, rounds in results[TICK].items()
    }
    return table


def show(table: dict[str, dict[str, Figure]], versions: dict[str, str]) -> None:
    titles = (f"{name} ({version})" for name, version in versions.items())
    print(
        f"{'milliseconds, median (least–most)':36}" + "".join(f"{title:>30}" for title in titles) + "   ratio"
    )
    for name, row in table.items():
        ratio = row["after"].median / row["before"].median
        print(f"{name:36}{row['before']!s:>30}{row['after']!s:>30}{ratio:8.2f}")
    print("of which the client, the server:")
    for name, row in list(table.items())[:-1]:
        parts = (f"{value.client:.2f}, {value.server:.2f}" for value in row.values())
        print(f"{name:36}" + "".join(f"{text:>30}" for text in parts))
    for name in ("failure with retry", "transactional success", "bundle of fifty"):
        size = BUNDLE if name == "bundle of fifty" else 1
        multiples = (
            row.median / size / table["success"][version].median for version, row in table[name].items()
        )
        each = ", each run" if size > 1 else ""
        print(f"{name + each + ' / success':36}" + "".join(f"{value:>30.2f}" for value in multiples))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--before", default=BEFORE, help="a revision; it is compared with this tree")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="measurements of each version, at least 3")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main(options: argparse.Namespace) -> None:
    versions = {"before": describe(options.before), "after": describe()}
    with unpacked(options.before) as before, servers() as started:
        results = measure(before, started, max(options.rounds, 3))
    if options.json:
        print(json.dumps({"versions": versions, "rounds": results}, indent=1))
    else:
        show(figures(results), versions)


if __name__ == "__main__":
    main(arguments())
