"""Beats killed with SIGKILL, or frozen for a while, again and again, under load: the ledger is whole.

Which beat, when and how is drawn from a seed, so a failure can be looked at again; the moment within
a tick is the machine's own chance.
"""

import random
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from jobs.models import Job
from tests.cluster.fleets import insert_jobs, make_pool, owed
from tests.cluster.ledgers import instants, rows, runs, start_beats, states
from tests.cluster.processes import TOOLS, Cluster, Process

pytestmark = [pytest.mark.cluster]

SEED = 5
BEATS = 3
CHAOS = timedelta(seconds=35)
FEWEST_KILLS = 8


def fleet(until: datetime) -> list[Job]:
    """Some ten runs a second, of every shape: alone, in a row, fanned out, waiting for slots.

    They end when the chaos does: a slow machine shall catch up, and not run after what is added.
    """
    lasting: dict[str, Any] = {"misfire_grace": "1h", "function": "once"}
    apart = {"overlap": "allow", "retry": {"max_retries": 9, "interval": "1s"}, **lasting}
    end = f"{{until:{until:%Y-%m-%dT%H:%M:%SZ}}}"
    make_pool("narrow", 2)
    make_pool("default", 1000)
    return [
        *insert_jobs(_names("second", 4), f"* * * * * * {end}", **apart),
        *insert_jobs(_names("queued", 3), f"*/3 * * * * * {end}", overlap="queue", **lasting),
        *insert_jobs(_names("fan", 2), f"*/2 * * * * * {end}", mode="parallel", tasks=3, **apart),
        *insert_jobs(_names("line", 2), f"*/4 * * * * * {end}", tasks=2, **apart),
        *insert_jobs(_names("narrow", 3), f"*/2 * * * * * {end}", pool="narrow", **apart),
        *insert_jobs(_names("every", 2), f"@every 1700ms {end}", **apart),
    ]


def _names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


def pass_by(cluster: Cluster, seconds: float) -> None:
    until = timezone.now() + timedelta(seconds=seconds)
    cluster.wait_until(lambda: timezone.now() > until, timeout=seconds + 5, describe="the time to pass")


def rage(cluster: Cluster, beats: list[Process], end: datetime) -> Counter[str]:
    """Kill or freeze until then; who dies is replaced, who froze wakes up with what it held."""
    chance = random.Random(SEED)  # noqa: S311 - chaos, not cryptography
    done: Counter[str] = Counter()
    while timezone.now() < end:
        pass_by(cluster, chance.uniform(0.2, 1.8))
        victim = chance.choice(beats)
        if chance.random() < 0.25:
            cluster.freeze(victim)
            pass_by(cluster, chance.uniform(0.5, 2.5))
            cluster.thaw(victim)
            done["frozen"] += 1
            continue
        cluster.kill(victim)
        beats.remove(victim)
        beats.append(cluster.start_beat())
        done["killed"] += 1
    return done


def unfinished(end: datetime) -> Counter[Any]:
    return states(rows(end=end).filter(finished_at=None))


def stuck(end: datetime) -> list[Any]:
    """Facts about the runs under way, for whoever reads a failure."""
    open_runs = runs().filter(occurrence__scheduled_for__lte=end, finished_at=None)
    facts = ("state", "available_at", "dispatched_at", "claimed_by", "lease_until", "attempts_made")
    return list(open_runs.values_list("occurrence__job__name", "occurrence__state", *facts))


@pytest.mark.req("OCC-2")
@pytest.mark.req("OCC-5")
@pytest.mark.req("OCC-7")
def test_beats_killed_at_random_again_and_again_lose_and_double_nothing(cluster: Cluster) -> None:
    cluster.apps = TOOLS
    for _ in range(2):
        cluster.start_worker(concurrency=2)
    beats = start_beats(cluster, BEATS)
    until = timezone.now() + CHAOS
    jobs = fleet(until)
    done = rage(cluster, beats, until)
    end = timezone.now()
    cluster.wait_until(
        lambda: not unfinished(end),
        timeout=120,
        describe=lambda: f"everything up to {end} over; {unfinished(end)}; {stuck(end)}",
    )

    assert done["killed"] >= FEWEST_KILLS
    assert done["frozen"]
    expected = {pair for job in jobs for pair in owed([job], job.created_at, end)}
    assert instants(rows(end=end)) == dict.fromkeys(expected, 1)
    assert states(rows(end=end)) == {"completed": len(expected)}
    ids = set(runs().filter(occurrence__in=rows(end=end)).values_list("id", flat=True))
    effects = Counter(
        str(run).replace("-", "") for (run,) in cluster.query("SELECT run_id FROM cluster_app_effect")
    )
    assert {id_: effects[id_.hex] for id_ in ids} == dict.fromkeys(ids, 1)
