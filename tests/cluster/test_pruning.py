"""Three beats and an operator prune concurrently."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db.models import Sum
from django.utils import timezone

from punctual.occurrences.models import Occurrence, TaskRun
from punctual.occurrences.states import OccurrenceState, RunState
from punctual.operations.models import Audit
from punctual.recovery.models import Tally
from tests.cluster.job_rows import insert_jobs
from tests.cluster.ledger_queries import start_beats
from tests.cluster.processes import ALIAS, TOOLS, Cluster
from tests.occurrences.factories import a_run, a_task, an_occurrence

pytestmark = [pytest.mark.cluster]

JOBS, ROWS = 40, 50
YEARLY = "0 0 1 1 *"


def insert_history(names: list[str]) -> None:
    """Insert jobs with an occurrence and a run for each of the last hours."""
    now = timezone.now().replace(microsecond=0)
    occurrences, runs = [], []
    for job in insert_jobs(names, YEARLY, retention="1h"):
        task = a_task(job, "step-0")
        for hour in range(2, ROWS + 2):
            at = now - timedelta(hours=hour)
            occurrences.append(an_occurrence(job, at, OccurrenceState.COMPLETED, finalized_at=at))
            runs.append(a_run(occurrences[-1], task, RunState.SUCCESS))
    Occurrence.objects.using(ALIAS).bulk_create(occurrences)
    TaskRun.objects.using(ALIAS).bulk_create(runs)


@pytest.mark.req("REC-6")
def test_three_beats_and_an_operator_delete_each_old_row_once_and_count_it_once(cluster: Cluster) -> None:
    cluster.apps = TOOLS
    names = [f"old-{number:02d}" for number in range(JOBS)]
    insert_history(names)
    old = Occurrence.objects.using(ALIAS).filter(finished_at__isnull=False)
    assert old.count() == JOBS * ROWS
    start_beats(cluster, 3)
    with ThreadPoolExecutor(2) as pool:
        list(
            pool.map(
                lambda name: cluster.manage("punctual", "prune", "--job", name, "--by", "ada"), names[:2]
            )
        )
    cluster.wait_until(lambda: not old.exists(), timeout=90, describe=lambda: f"{old.count()} left")

    totals = Tally.objects.using(ALIAS).filter(counter="occurrences").aggregate(all=Sum("count"))
    assert totals == {"all": JOBS * ROWS}
    assert Tally.objects.using(ALIAS).count() == JOBS, "one per job, no matter which process added to it"
    by_hand = Audit.objects.using(ALIAS).aggregate(all=Sum("count"))["all"] or 0
    assert by_hand <= 2 * ROWS, "the operator asked for two jobs only"
    assert cluster.log_lines("deadlock", "traceback", "beat.tick_failed") == []
    matches = [
        re.search(r"occurrences\.pruned jobs=(\d+) occurrences=(\d+)", line) for line in _pruned(cluster)
    ]
    assert sum(int(match[2]) for match in matches if match) == JOBS * ROWS - by_hand, (
        "each beat logs what it deleted"
    )
    assert all(match and 1 <= int(match[1]) <= JOBS for match in matches)


def _pruned(cluster: Cluster) -> list[str]:
    return cluster.log_lines("occurrences.pruned")
