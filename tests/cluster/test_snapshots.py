"""Definitions change while real workers are in the middle of a sequence: each occurrence ends as it began."""

import json
from typing import Any

import pytest
from django.utils import timezone

from punctual.jobs.models import JobVersion
from punctual.occurrences.models import Occurrence, TaskRun
from tests.cluster.ledger_queries import occurrences_of, start_beats
from tests.cluster.processes import ALIAS, TOOLS, Cluster

pytestmark = [pytest.mark.cluster]

NAME = "changing"
FUNCTIONS = "tests.cluster.tools.jobs"


def apply(cluster: Cluster, team: str, tasks: dict[str, str], *, policy: str = "immediate") -> None:
    """Every two seconds a sequence of one second each: while one runs, the next one waits in the queue."""
    definition = {
        "name": NAME,
        "schedule": "*/2 * * * * *",
        "config": {"overlap": "queue", "bundle": False},
        "metadata": {"team": team, "seconds": "1"},
        "tasks": [{"name": name, "function": f"{FUNCTIONS}.{call}"} for name, call in tasks.items()],
    }
    path = cluster.folder / "jobs.json"
    path.write_text(json.dumps({"jobs": [definition]}))
    reason = ("--reason", team, "--author", "test", "--policy", policy)
    cluster.manage("punctual", "jobs", "apply", str(path), *reason)


def wait_for_running(cluster: Cluster, version: int) -> None:
    """The first task of an occurrence of this version has begun, and a later one waits for it."""
    rows = TaskRun.objects.using(ALIAS).filter(occurrence__job_version=version, occurrence__state="running")
    cluster.wait_until(
        lambda: rows.filter(state="running", position=0).exists(),
        timeout=60,
        describe=lambda: list(occurrences_of(NAME).values_list("job_version", "state")),
    )


def notes(cluster: Cluster) -> dict[str, set[str]]:
    """What the functions of each occurrence have written."""
    owners = {run.id.hex: str(run.occurrence_id) for run in TaskRun.objects.using(ALIAS).all()}
    sql = "SELECT run_id, source FROM cluster_app_effect WHERE source LIKE %s"
    written: dict[str, set[str]] = {}
    for run, source in cluster.query(sql, [f"{NAME}/%"]):
        written.setdefault(owners[str(run).replace("-", "")], set()).add(source.partition("/")[2])
    return written


def expected_notes(version: JobVersion) -> set[str]:
    after: Any = version.after
    team = after["metadata"]["team"]
    return {f"{task['function'].rpartition('.')[2]} {task['name']} of {team}" for task in after["tasks"]}


@pytest.mark.req("JOB-5", "JOB-6", "JOB-7")
@pytest.mark.parametrize("cluster", ["postgres", "sqlite"], indirect=True)
def test_a_running_sequence_ends_with_the_version_it_began_with(cluster: Cluster) -> None:
    cluster.apps = TOOLS
    start_beats(cluster, 2)
    cluster.start_worker(concurrency=2)
    apply(cluster, "one", {"first": "tells", "second": "tells", "third": "tells"})
    wait_for_running(cluster, 1)
    apply(cluster, "two", {"second": "answers", "fourth": "tells"}, policy="graceful")
    wait_for_running(cluster, 2)
    sql = "UPDATE punctual_task SET function = %s WHERE name = 'fourth'"
    assert cluster.execute(sql, [f"{FUNCTIONS}.answers"]) == 1
    assert (
        cluster.execute("UPDATE punctual_job SET metadata = %s", ['{"team": "three", "seconds": "1"}']) >= 1
    )
    cluster.wait_until(
        lambda: occurrences_of(NAME).filter(job_version__gte=3, state="completed").exists(),
        timeout=90,
        describe=lambda: list(occurrences_of(NAME).values_list("job_version", "state")),
    )
    until = timezone.now()
    cluster.execute("UPDATE punctual_job SET enabled = false")
    ended = Occurrence.objects.using(ALIAS).filter(job__name=NAME, scheduled_for__lte=until)
    cluster.wait_until(
        lambda: not ended.filter(finished_at=None).exists(),
        timeout=120,
        describe=lambda: list(ended.values_list("job_version", "state")),
    )

    versions = {row.number: row for row in JobVersion.objects.using(ALIAS).filter(job__name=NAME)}
    assert [versions[number].author for number in (1, 2, 3)] == ["test", "test", "sql"]
    written = notes(cluster)
    completed = list(ended.filter(state="completed"))
    assert {row.job_version for row in completed} >= {1, 2}
    for row in completed:
        assert written[str(row.id)] == expected_notes(versions[row.job_version]), row.job_version
        report: Any = row.report
        assert report["job_version"] == row.job_version
