"""Entries of `beat_schedule` beside jobs: two beats together send each once per interval."""

from datetime import timedelta

import pytest
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from tests.cluster.job_rows import insert_jobs, owed_instants
from tests.cluster.ledger_queries import count_instants, occurrences_of, start_beats
from tests.cluster.processes import ALIAS, Cluster

pytestmark = [pytest.mark.cluster]

INTERVAL = 2.0
WINDOW = timedelta(seconds=12)


def pings(cluster: Cluster) -> int:
    ((count,),) = cluster.query("SELECT count(*) FROM cluster_app_effect WHERE source = 'ping'")
    return int(count)


@pytest.mark.parametrize("cluster", ["postgres", "sqlite"], indirect=True)
@pytest.mark.req("OCC-10")
def test_two_beats_send_an_entry_of_the_beat_schedule_once_per_interval_beside_jobs(cluster: Cluster) -> None:
    cluster.apps = "tests.cluster.app,tests.cluster.tools"
    cluster.variables["DJANGO_SETTINGS_MODULE"] = "tests.cluster.settings"
    cluster.start_worker(concurrency=2)
    before = timezone.now()
    beats = start_beats(cluster, 2)
    (job,) = insert_jobs(["beside"], "* * * * * *", overlap="allow")
    start = timezone.now()
    cluster.wait_until(
        lambda: timezone.now() > start + WINDOW, timeout=WINDOW.total_seconds() + 10, describe="the window"
    )
    for beat in beats:
        cluster.stop(beat)
    after = timezone.now()

    sent = PeriodicTask.objects.using(ALIAS).get(name="ping").total_run_count
    assert sent >= WINDOW.total_seconds() / INTERVAL * 0.7, "an interval was left out"
    assert sent <= (after - before).total_seconds() / INTERVAL + 1, "an interval was sent twice"
    cluster.wait_until(
        lambda: pings(cluster) >= sent, timeout=30, describe=lambda: f"{sent} pings, got {pings(cluster)}"
    )
    assert pings(cluster) == sent
    end = start + WINDOW - timedelta(seconds=1)
    assert count_instants(occurrences_of("beside", start=start, end=end)) == dict.fromkeys(
        owed_instants([job], start, end), 1
    )
    assert cluster.log_lines("traceback", "Cannot add entry") == []
