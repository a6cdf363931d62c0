"""Readiness and metrics of real processes, as a load balancer and Prometheus read them."""

import json
import time
from collections import Counter

import pytest

from tests.cluster.job_rows import insert_jobs
from tests.cluster.processes import TOOLS, Cluster
from tests.cluster.web import Web

pytestmark = [pytest.mark.cluster, pytest.mark.req("OPS-4")]

SLACK = 2.0  # seconds: a poll, a response, and a busy machine


@pytest.mark.alone
def test_a_frozen_beat_is_reported_within_two_intervals(cluster: Cluster) -> None:
    cluster.start_worker()
    beat, web = cluster.start_beat(), Web(cluster)
    cluster.wait_until(lambda: web.ready()["ready"], timeout=60, describe=lambda: web.get("/readyz"))
    detail = json.loads(web.get("/readyz")[1])["checks"]["tick"]["detail"]
    bound = float(detail.split("at most ")[1].split(" s")[0])
    assert bound < 4, "two intervals of a beat that sleeps for a second at most"

    cluster.freeze(beat)
    frozen = time.monotonic()
    cluster.wait_until(lambda: not web.ready()["tick"], timeout=60, describe=lambda: web.get("/readyz"))
    assert time.monotonic() - frozen < bound + SLACK
    assert web.ready()["database"]
    cluster.thaw(beat)
    cluster.wait_until(lambda: web.ready()["ready"], timeout=60, describe=lambda: web.get("/readyz"))


@pytest.mark.early
def test_a_worker_that_answers_pings_but_consumes_nothing_is_not_ready(cluster: Cluster) -> None:
    cluster.start_worker(queues="elsewhere")
    cluster.start_beat()
    web = Web(cluster)
    code = "from celery import current_app as app; print('pong', len(app.control.ping(timeout=3)))"
    cluster.wait_until(
        lambda: "pong 1" in cluster.manage("shell", "-c", code), timeout=60, describe="no pong"
    )
    cluster.wait_until(
        lambda: not web.ready()["consumption"], timeout=90, describe=lambda: web.get("/readyz")
    )
    assert web.ready()["tick"], "beats go on"
    assert 'scheduler_queue_age_seconds{queue="default"} 3' in web.get("/metrics")[1]
    cluster.start_worker()
    cluster.wait_until(lambda: web.ready()["ready"], timeout=60, describe=lambda: web.get("/readyz"))


def ledger(cluster: Cluster) -> Counter[tuple[str, str]]:
    rows = cluster.query(
        "SELECT j.name, o.state, count(*) FROM punctual_occurrence o JOIN punctual_job j ON j.id = o.job_id"
        " WHERE o.finished_at IS NOT NULL GROUP BY 1, 2"
    )
    return Counter({(name, state): count for name, state, count in rows})


def snapshot(cluster: Cluster) -> object:
    return cluster.query("SELECT claimed_at FROM punctual_metricssnapshot")


def test_counters_are_the_ledger_s_from_every_process_and_after_a_prune(cluster: Cluster) -> None:
    beat, worker = cluster.start_beat(), cluster.start_worker()
    webs = [Web(cluster), Web(cluster)]
    cluster.wait_until(lambda: ledger(cluster).total() >= 10, timeout=60, describe=lambda: ledger(cluster))
    cluster.stop(beat)
    cluster.stop(worker)
    before = ledger(cluster)
    for web in webs:
        cluster.wait_until(lambda: web.occurrences() == before, timeout=30, describe=web.occurrences)  # noqa: B023

    cluster.execute('UPDATE punctual_job SET config = config || \'{"retention": "1s"}\'')
    cluster.wait_until(
        lambda: (cluster.manage("punctual", "prune"), ledger(cluster).total() < before.total())[1],
        timeout=60,
        describe=lambda: ledger(cluster),
    )
    cached = snapshot(cluster)  # the cached snapshot would trivially agree: wait for a new one
    cluster.wait_until(
        lambda: webs[0].occurrences() and snapshot(cluster) != cached, timeout=30, describe="no new snapshot"
    )
    assert [web.occurrences() for web in webs] == [before, before]


@pytest.mark.early
def test_a_queue_without_a_worker_is_reported_while_other_queues_flow(cluster: Cluster) -> None:
    cluster.apps = TOOLS
    cluster.start_worker()
    cluster.start_beat()
    web = Web(cluster)
    insert_jobs(["flows"], "@every 1s", function="nothing")
    insert_jobs(["waits"], "@every 1s", function="nothing", queue="orphan")
    cluster.wait_until(lambda: ledger(cluster)["flows", "completed"], timeout=60, describe="nothing flows")
    cluster.wait_until(lambda: not web.ready()["queues"], timeout=60, describe=lambda: web.get("/readyz"))

    status, text = web.get("/readyz")
    answer = json.loads(text)
    assert (status, answer["ready"], answer["degraded"]) == (200, True, True)
    assert (
        "no live worker consumes orphan (runs that wait: 1, for up to" in answer["checks"]["queues"]["detail"]
    )
    assert answer["checks"]["consumption"]["ok"], "other queues flow"
    metrics = web.get("/metrics")[1]
    assert 'scheduler_queue_unserved{queue="orphan"} 1.0' in metrics
    assert 'scheduler_queue_unserved{queue="default"} 0.0' in metrics
    with pytest.raises(AssertionError, match=r"fail  queues\s+no live worker consumes orphan"):
        cluster.manage("punctual", "doctor")

    cluster.start_worker(queues="orphan,other")
    # The new worker may take the only message before it says which queues it consumes: no run waits then, and
    # no worker is known, so the queue has no series for a moment.
    cluster.wait_until(
        lambda: 'scheduler_queue_unserved{queue="orphan"} 0.0' in web.get("/metrics")[1],
        timeout=60,
        describe=lambda: web.get("/readyz"),
    )
    assert web.ready()["queues"]
    assert json.loads(web.get("/readyz")[1])["degraded"] is False
