"""Readiness and metrics of real processes, as a load balancer and Prometheus read them."""

import json
import socket
import time
from collections import Counter
from http.client import HTTPConnection, HTTPException
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.processes import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.req("OPS-4")]

SLACK = 2.0  # seconds: a poll, a response, and a busy machine


class Web:
    def __init__(self, cluster: Cluster) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        cluster.start_web(self.port)
        cluster.wait_until(lambda: self.get("/healthz")[0] == 200, timeout=60, describe="no web server")

    def get(self, path: str) -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, HTTPException):
            return 0, ""
        finally:
            connection.close()

    def ready(self) -> dict[str, Any]:
        status, text = self.get("/readyz")
        payload: dict[str, Any] = json.loads(text)
        assert (status == 200) is payload["ready"]
        return {name: check["ok"] for name, check in payload["checks"].items()} | {"ready": payload["ready"]}

    def occurrences(self) -> Counter[tuple[str, str]]:
        families = text_string_to_metric_families(self.get("/metrics")[1])
        samples = [sample for family in families for sample in family.samples]
        return Counter(
            {
                (sample.labels["job"], sample.labels["status"]): int(sample.value)
                for sample in samples
                if sample.name == "scheduler_job_occurrences_total"
            }
        )


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
