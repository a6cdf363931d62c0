"""Web servers of a cluster, asked over HTTP."""

import json
import socket
from collections import Counter
from http.client import HTTPConnection, HTTPException
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.processes import Cluster


class Web:
    """A gunicorn with one or more processes behind one port."""

    def __init__(self, cluster: Cluster, *, workers: int = 1) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        cluster.start_web(self.port, workers=workers)
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
