"""The grid of tasks and occurrences."""

from datetime import datetime, timedelta

import pytest
from django.test import Client

from punctual.console.definitions.task_grid import grid, grid_panel
from punctual.occurrences.states import RunState
from tests.console.fixtures import page
from tests.console.ledger_rows import make_job, make_occurrence, make_run, make_task

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2")]


def test_a_run_is_in_the_row_of_its_task_and_the_column_of_its_occurrence(now: datetime) -> None:
    job = make_job("etl", now)
    first, second = make_task(job, "extract"), make_task(job, "load", position=1)
    older, newer = make_occurrence(job, now - timedelta(hours=1)), make_occurrence(job, now)
    runs = [
        make_run(older, first),
        make_run(newer, first),
        make_run(newer, second, RunState.DLQ, attempts_made=3),
    ]
    rows = grid([older, newer], runs)
    assert [row.task for row in rows] == ["extract", "load"]
    assert [cell and cell.tone for cell in rows[0].cells] == ["good", "good"]
    assert [cell and cell.tone for cell in rows[1].cells] == [None, "bad"]
    dead = rows[1].cells[1]
    assert dead is not None
    assert dead.title == "load, 2026-01-05 12:00:00 UTC: dead letter, 3 attempts"


def test_a_job_that_never_ran_has_no_grid(root: Client, now: datetime) -> None:
    job = make_job("etl", now)
    assert grid_panel(job) == ""
    assert "Tasks by newest" not in page(root, f"/admin/punctual/job/{job.pk}/change/")
