"""SIGTERM during a tick: the beat finishes the tick, deletes its row and exits."""

import signal
from datetime import timedelta

import psycopg
import pytest
from django.utils import timezone

from tests.cluster import queues
from tests.cluster.job_rows import insert_jobs, make_pool
from tests.cluster.ledger_queries import count_beats, count_states, occurrences_of, runs_of, start_beats
from tests.cluster.processes import TOOLS, Cluster

pytestmark = [pytest.mark.cluster]

JOBS = 30


# A beat waits for no lock longer than half a second, so a slow statement holds the tick.
SLOW_FIRING = """
    CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql
        AS $$ BEGIN PERFORM pg_sleep(4); RETURN NULL; END $$;
    CREATE TRIGGER slow BEFORE INSERT ON punctual_taskrun FOR EACH STATEMENT EXECUTE FUNCTION slow();
"""


def is_firing(cluster: Cluster) -> bool:
    sql = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
    return bool(cluster.query(sql))


@pytest.mark.req("EXE-9")
def test_a_beat_that_receives_sigterm_during_a_tick_finishes_the_tick(cluster: Cluster) -> None:
    cluster.apps = TOOLS
    make_pool("crowd", 1000)
    (beat,) = start_beats(cluster, 1)
    with psycopg.connect(cluster.database_url, autocommit=True) as session:
        session.execute(SLOW_FIRING)
    soon = timezone.now().replace(microsecond=0) + timedelta(seconds=2)
    insert_jobs(
        (f"crowd-{number:02d}" for number in range(JOBS)),
        f"@once {soon:%Y-%m-%dT%H:%M:%SZ}",
        pool="crowd",
        queue="crowd",
    )
    cluster.wait_until(lambda: is_firing(cluster), timeout=20, describe="a tick in progress")
    beat.popen.send_signal(signal.SIGTERM)
    beat.ended = True  # from here on it may exit
    until = timezone.now() + timedelta(seconds=1)
    cluster.wait_until(lambda: timezone.now() > until, timeout=5, describe="a second to pass")
    assert beat.alive, "the beat exited during a tick"
    assert count_states(occurrences_of("crowd")) == {"pending": JOBS}
    beat.popen.wait(timeout=20)

    assert beat.popen.returncode == 0
    assert count_states(occurrences_of("crowd")) == {"dispatched": JOBS}
    assert queues.waiting_runs(cluster, "crowd") == dict.fromkeys(
        runs_of("crowd").filter(dispatched_at__isnull=False).values_list("id", flat=True), 1
    )
    assert count_beats() == 0, "the beat deleted its row"
