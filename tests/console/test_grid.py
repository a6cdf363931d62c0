"""Tasks down, occurrences across: where in a job things go wrong."""

from datetime import datetime, timedelta

import pytest
from django.test import Client

from console.grid import grid, grid_panel
from occurrences.states import RunState
from tests.console.pages import page
from tests.console.rows import make_job, make_occurrence, make_run, make_task

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2")]


def test_a_run_stands_in_its_tasks_row_and_its_occurrences_column(now: datetime) -> None:
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
    assert "Tasks by newest" not in page(root, f"/admin/jobs/job/{job.pk}/change/")
