"""Flower on a running platform: its pages, and who may read them."""

import json
import re
import socket
from base64 import b64encode
from http.client import HTTPConnection, HTTPException
from typing import Any

import pytest
import redis

from tests.cluster.processes import Cluster, manage
from tests.cluster.scenarios import (
    NO_RETRY,
    RETRY_ONCE,
    attempts,
    insert_due_jobs,
    prepare,
    wait_until_settled,
)
from tests.cluster.test_bundles import due_together

pytestmark = [pytest.mark.cluster, pytest.mark.req("OPS-5")]

LOGIN, PASSWORD = "reader:word", "hunter2-of-the-broker"
RUN = re.compile(r"\((?P<name>[\w-]+ / \w+) / \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ( and \d+ more)?\)")
SETTLE = re.compile(r"\(([\w-]+ / settle / \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|occ_[0-9a-f-]{36})\)")


class Flower:
    def __init__(self, cluster: Cluster) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.process = cluster.start_flower(self.port)
        cluster.wait_until(
            lambda: self.get("/healthcheck")[0] == 200, timeout=60, describe="Flower does not answer"
        )

    def get(self, path: str, login: str = LOGIN) -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        headers = {"Authorization": f"Basic {b64encode(login.encode()).decode()}"} if login else {}
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, HTTPException):
            return 0, ""
        finally:
            connection.close()

    def tasks(self, state: str = "SUCCESS") -> dict[str, dict[str, Any]]:
        status, text = self.get("/api/tasks?limit=1000")
        assert status == 200, text
        tasks: dict[str, dict[str, Any]] = json.loads(text)
        return {id_: task for id_, task in tasks.items() if task["state"] == state and task["name"]}


def demand_password(cluster: Cluster) -> None:
    path = cluster.broker.url.removeprefix("redis+socket://")
    redis.Redis(unix_socket_path=path).config_set("requirepass", PASSWORD)
    cluster.variables["BROKER_URL"] = f"redis+socket://:{PASSWORD}@{path}"


def names(tasks: dict[str, dict[str, Any]]) -> set[str]:
    return {task["name"] for task in tasks.values()}


def test_tasks_show_job_task_and_occurrence_and_no_page_shows_a_password(cluster: Cluster) -> None:
    demand_password(cluster)
    cluster.variables["FLOWER_BASIC_AUTH"] = LOGIN
    cluster.start_worker()
    flower = Flower(cluster)
    cluster.start_beat()
    expected = {"each-second / each_second", "fan-out / left", "in-order / third", "punctual.settle"}
    cluster.wait_until(
        lambda: expected <= names(flower.tasks()), timeout=60, describe=lambda: names(flower.tasks())
    )

    tasks = flower.tasks()
    for task in tasks.values():
        pattern = SETTLE if task["name"] == "punctual.settle" else RUN
        match = pattern.fullmatch(task["args"])
        assert match, task
        assert task["name"] in ("punctual.settle", match.groupdict().get("name")), task
        assert task["kwargs"] == "{}"

    _, listed = flower.get("/tasks")
    columns = re.findall(r'data-column="(\w+)"', listed)
    assert columns[:2] == ["name", "args"]
    worker = next(task["worker"] for task in tasks.values())
    one = next(iter(tasks))
    pages = ["/", "/workers", f"/worker/{worker}", f"/task/{one}", "/broker", "/api/workers?refresh=1"]
    responses = {path: flower.get(path) for path in [*pages, "/api/queues/length", "/metrics"]}
    assert {status for status, _ in responses.values()} == {200}
    assert tasks[one]["args"] in responses[f"/task/{one}"][1]
    assert "Terminate" not in responses[f"/worker/{worker}"][1] + responses[f"/task/{one}"][1], (
        "it is read-only"
    )
    for path, (_, text) in responses.items():
        assert PASSWORD not in text, path
    assert PASSWORD not in "".join(line for process in cluster.processes for line in process.lines)

    for path in ("/", "/tasks", "/broker", "/api/tasks"):
        assert flower.get(path, login="")[0] == 401, path
        assert flower.get(path, login="reader:else")[0] == 401, path


@pytest.mark.req("TEL-1")
def test_a_failed_attempt_is_a_failure_in_flower_and_in_the_worker_s_log(cluster: Cluster) -> None:
    prepare(cluster, FLOWER_BASIC_AUTH=LOGIN, WORKER_SLOTS="1")
    worker = cluster.start_worker(concurrency=1)
    flower = Flower(cluster)
    cluster.wait_until(
        lambda: cluster.log_lines("Events of group {task} enabled"), timeout=30, describe="no events"
    )
    alone, fan_out = (
        {"bundle": False, "retry": NO_RETRY},
        {"mode": "parallel", "failure_strategy": "continue"},
    )
    insert_due_jobs("fails", config=alone, raises=1)
    insert_due_jobs("recovers", config={"bundle": False, "retry": RETRY_ONCE}, fails_once=1)
    insert_due_jobs("fans", config=alone | fan_out, raises=1, quick=1)
    bundled = {"a-bundled": "raises", "b-bundled": "quick", "c-bundled": "raises", "d-bundled": "raises"}
    due_together(bundled, retry=NO_RETRY)
    wait_until_settled(cluster, "fails", "recovers", "fans", *bundled)

    failed = {name for name, function in bundled.items() if function == "raises"}
    failures = {"fails / raises-0", "fans / raises-0", *(f"{name} / step" for name in failed)}
    cluster.wait_until(
        lambda: failures <= names(flower.tasks("FAILURE")),
        timeout=30,
        describe=lambda: (names(flower.tasks("FAILURE")), names(flower.tasks())),
    )
    ids = {str(item.id) for job in ("fails", "fans", *bundled) for item in attempts(job) if item.error}
    assert set(flower.tasks("FAILURE")) == ids, "each failed attempt once, and nothing else"
    assert names(flower.tasks("RETRY")) == {"recovers / fails_once-0"}
    assert "RuntimeError: on purpose" in {task["exception"] for task in flower.tasks("FAILURE").values()}
    # The chord goes on although a member failed.
    cluster.wait_until(
        lambda: "punctual.settle" in names(flower.tasks()), timeout=30, describe="no callback of the chord"
    )
    failed_ids = ids | set(flower.tasks("RETRY"))
    succeeded = [line for line in worker.lines if "succeeded" in line]
    assert succeeded
    assert not [line for line in succeeded if any(id_ in line for id_ in failed_ids)]
    assert len(cluster.log_lines("ERROR   punctual  attempt.failed")) == len(ids)


def test_without_a_login_it_does_not_start(cluster: Cluster) -> None:
    flower = cluster.start_flower(0)
    flower.popen.wait(timeout=60)
    flower.ended = True
    assert flower.popen.returncode == 1
    [line] = [line for line in flower.lines if line.startswith("error: ")]
    assert "set FLOWER_BASIC_AUTH=user:password" in line


def test_task_events_are_off_by_default(cluster: Cluster) -> None:
    code = "from celery import current_app as a; print(a.conf.worker_send_task_events)"
    assert "False" in manage(cluster.environment, "shell", "-c", code)
