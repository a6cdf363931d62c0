"""Beats are killed with SIGKILL or frozen repeatedly under load; the ledger stays complete.

A seed decides which beat is hit, when and how, so that a failure can be repeated; the moment within a
tick depends on the machine.
"""

import random
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from punctual.jobs.models import Job
from tests.cluster.job_rows import insert_jobs, make_pool, owed_instants
from tests.cluster.ledger_queries import count_instants, count_states, occurrences_of, runs_of, start_beats
from tests.cluster.processes import TOOLS, Cluster, Process

pytestmark = [pytest.mark.cluster]

SEED = 5
BEATS = 3
CHAOS = timedelta(seconds=35)
MIN_KILLS = 8


def fleet(until: datetime) -> list[Job]:
    """About ten runs a second: single, sequential, parallel, and waiting for slots.

    The schedules end with the faults, so that a slow machine can catch up.
    """
    no_misfire: dict[str, Any] = {"misfire_grace": "1h", "function": "once"}
    apart = {"overlap": "allow", "retry": {"max_retries": 9, "interval": "1s"}, **no_misfire}
    end = f"{{until:{until:%Y-%m-%dT%H:%M:%SZ}}}"
    make_pool("narrow", 2)
    make_pool("default", 1000)
    return [
        *insert_jobs(_names("second", 4), f"* * * * * * {end}", **apart),
        *insert_jobs(_names("queued", 3), f"*/3 * * * * * {end}", overlap="queue", **no_misfire),
        *insert_jobs(_names("fan", 2), f"*/2 * * * * * {end}", mode="parallel", tasks=3, **apart),
        *insert_jobs(_names("line", 2), f"*/4 * * * * * {end}", tasks=2, **apart),
        *insert_jobs(_names("narrow", 3), f"*/2 * * * * * {end}", pool="narrow", **apart),
        *insert_jobs(_names("every", 2), f"@every 1700ms {end}", **apart),
    ]


def _names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


def wait_seconds(cluster: Cluster, seconds: float) -> None:
    until = timezone.now() + timedelta(seconds=seconds)
    cluster.wait_until(lambda: timezone.now() > until, timeout=seconds + 5, describe="the time to pass")


def inject_faults(cluster: Cluster, beats: list[Process], end: datetime) -> Counter[str]:
    """Kill or freeze beats until `end`; a killed beat is replaced, a frozen one continues."""
    chance = random.Random(SEED)  # noqa: S311 - chaos, not cryptography
    done: Counter[str] = Counter()
    while timezone.now() < end:
        wait_seconds(cluster, chance.uniform(0.2, 1.8))
        victim = chance.choice(beats)
        if chance.random() < 0.25:
            cluster.freeze(victim)
            wait_seconds(cluster, chance.uniform(0.5, 2.5))
            cluster.thaw(victim)
            done["frozen"] += 1
            continue
        cluster.kill(victim)
        beats.remove(victim)
        beats.append(cluster.start_beat())
        done["killed"] += 1
    return done


def unfinished(end: datetime) -> Counter[Any]:
    return count_states(occurrences_of(end=end).filter(finished_at=None))


def stuck(end: datetime) -> list[Any]:
    """Facts about open runs, for the failure message."""
    open_runs = runs_of().filter(occurrence__scheduled_for__lte=end, finished_at=None)
    facts = ("state", "available_at", "dispatched_at", "claimed_by", "lease_until", "attempts_made")
    return list(open_runs.values_list("occurrence__job__name", "occurrence__state", *facts))


@pytest.mark.early
@pytest.mark.req("OCC-2")
@pytest.mark.req("OCC-5")
@pytest.mark.req("OCC-7")
def test_beats_killed_at_random_lose_and_double_nothing(cluster: Cluster) -> None:
    cluster.apps = TOOLS
    for _ in range(2):
        cluster.start_worker(concurrency=2)
    beats = start_beats(cluster, BEATS)
    until = timezone.now() + CHAOS
    jobs = fleet(until)
    faults = inject_faults(cluster, beats, until)
    end = timezone.now()
    cluster.wait_until(
        lambda: not unfinished(end),
        timeout=120,
        describe=lambda: f"open occurrences up to {end}: {unfinished(end)}; {stuck(end)}",
    )

    assert faults["killed"] >= MIN_KILLS
    assert faults["frozen"]
    expected = {pair for job in jobs for pair in owed_instants([job], job.created_at, end)}
    assert count_instants(occurrences_of(end=end)) == dict.fromkeys(expected, 1)
    assert count_states(occurrences_of(end=end)) == {"completed": len(expected)}
    ids = set(runs_of().filter(occurrence__in=occurrences_of(end=end)).values_list("id", flat=True))
    effects = Counter(
        str(run).replace("-", "") for (run,) in cluster.query("SELECT run_id FROM cluster_app_effect")
    )
    assert {id_: effects[id_.hex] for id_ in ids} == dict.fromkeys(ids, 1)
