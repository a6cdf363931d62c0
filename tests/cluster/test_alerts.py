"""The shipped alert rules, fed with scrapes of real web processes."""

from collections import Counter
from pathlib import Path

import pytest

from tests.cluster.job_rows import insert_jobs
from tests.cluster.processes import TOOLS, Cluster
from tests.cluster.web import Web
from tests.promtool import needs_promtool, run_rules, series_of

pytestmark = [pytest.mark.cluster, pytest.mark.early, pytest.mark.req("TEL-3"), needs_promtool]

FAILED = ("new", "failed")
SCRAPES_PER_PROCESS = 3


@pytest.mark.parametrize(
    ("servers", "workers"), [(1, 1), (1, 4), (4, 1)], ids=["one process", "four processes", "four servers"]
)
def test_the_first_failure_ever_of_a_new_job_fires_one_alert(
    cluster: Cluster, tmp_path: Path, servers: int, workers: int
) -> None:
    cluster.apps = TOOLS
    cluster.start_worker()
    cluster.start_beat()
    webs = [Web(cluster, workers=workers) for _ in range(servers)]
    scrapes: dict[str, list[str]] = {f"web{number}": [] for number in range(servers)}

    def scrape() -> None:
        for texts, web in zip(scrapes.values(), webs, strict=True):
            texts.append(web.get("/metrics")[1])

    def shown() -> list[Counter[tuple[str, str]]]:
        return [web.occurrences() for web in webs for _ in range(workers * SCRAPES_PER_PROCESS)]

    scrape()
    insert_jobs(["new"], "@every 1d", function="broken")
    cluster.wait_until(lambda: all(FAILED in one for one in shown()), timeout=60, describe=shown)
    scrape()
    cluster.manage("punctual", "jobs", "trigger", "new")
    cluster.wait_until(lambda: all(one[FAILED] for one in shown()), timeout=60, describe=shown)
    scrape()
    assert {one[FAILED] for one in shown()} == {1}, "every process shows the ledger's number"
    scrape()
    fires = {"PunctualJobFails": [({"job": "new"}, "1")]}
    complaints = run_rules(series_of(scrapes), tmp_path, {0: {}, 1: {}, 2: fires, 3: fires})
    assert not complaints, complaints
