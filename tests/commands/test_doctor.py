"""The doctor reports each problem in finding line with advice, and never with a secret."""

import json
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from celery import current_app
from django.core.management import call_command
from django.db import DatabaseError, connection
from django.test import override_settings

from punctual.commands.doctor import (
    FAIL,
    OK,
    WARN,
    Finding,
    examine,
    examine_broker,
    examine_jobs,
    examine_processes,
    examine_settings,
    judge_migrations,
    judge_skew,
    judge_visibility_timeout,
    judge_workers,
    longest_execution_timeout,
)
from punctual.execution.models import Process
from punctual.execution.supervision.presence import sign_in
from punctual.jobs.clock import database_now
from punctual.occurrences.models import Cursor
from tests.console.ledger_rows import make_job, make_task

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("OPS-3")]

HOUR = timedelta(hours=1)
SECRET = "hunter2"  # noqa: S105 - made up


def levels(findings: list[Finding]) -> dict[str, str]:
    return {finding.check: finding.level for finding in findings}


@pytest.mark.parametrize(
    ("seconds", "level"), [(0.1, OK), (-0.4, OK), (2, WARN), (-2, WARN), (6, FAIL), (-3600, FAIL)]
)
def test_clock_skew_is_a_warning_then_a_failure(seconds: float, level: str) -> None:
    assert judge_skew(timedelta(seconds=seconds)).level == level


def test_the_clocks_difference_is_measured(now: datetime) -> None:
    findings = levels(list(examine(clock=lambda: datetime.now(UTC) + HOUR)))
    assert findings["clock"] == FAIL


def test_a_visibility_timeout_must_cover_the_longest_execution(now: datetime) -> None:
    make_job("short", now, config={"execution_timeout": "5m"})
    make_job("long", now, config={"execution_timeout": "3h"})
    make_job("gone", now, config={"execution_timeout": "9h"}, removed_at=now)
    assert longest_execution_timeout() == 3 * HOUR
    assert judge_visibility_timeout(HOUR, 3 * HOUR).level == WARN
    assert judge_visibility_timeout(3 * HOUR, 3 * HOUR).level == OK


def test_missing_migrations_come_with_their_remedy() -> None:
    assert judge_migrations(0).level == OK
    assert judge_migrations(2).advice == "run manage.py migrate"


@override_settings(DEBUG=True)
def test_unsafe_settings_are_named() -> None:
    (finding,) = examine_settings()
    assert (finding.level, finding.advice) == (FAIL, "Set DEBUG = False.")
    assert finding.detail.startswith("DEBUG is on")


@override_settings(PUNCTUAL={"mode": "sideways"})
def test_a_wrong_platform_layer_is_named() -> None:
    assert [finding.level for finding in examine_settings()] == [FAIL]


def test_jobs_that_cannot_be_planned_or_run_are_counted(now: datetime) -> None:
    job = make_job("broken", now)
    Cursor.objects.update_or_create(job=job, defaults={"settled_until": now, "problem": "no"})
    make_task(make_job("lost", now), registered=False)
    assert [(finding.level, finding.detail) for finding in examine_jobs()] == [
        (FAIL, "1 cannot be planned, the first is 'broken': no"),
        (WARN, "1 name functions that no code registers"),
    ]


def test_a_broker_that_is_gone_is_named_without_its_address() -> None:
    before = current_app.conf.broker_url
    current_app.conf.update(broker_url=f"redis://user:{SECRET}@127.0.0.1:1/0")
    try:
        (finding,) = examine_broker()
    finally:
        current_app.conf.update(broker_url=before)
    assert finding.level == FAIL
    assert SECRET not in str(finding)
    assert "127.0.0.1" not in str(finding)


def test_without_a_broker_the_rest_is_still_examined() -> None:
    before = current_app.conf.broker_url
    current_app.conf.update(broker_url=f"redis+socket://:{SECRET}@/nowhere.sock")
    try:
        findings = {finding.check: finding for finding in examine(lambda: datetime.now(UTC))}
    finally:
        current_app.conf.update(broker_url=before)
    assert findings["broker"].level == FAIL
    assert (findings["workers"].level, findings["workers"].detail) == (FAIL, "none runs")
    assert "jobs" in findings
    assert SECRET not in str(findings)


def test_without_a_database_the_rest_is_not_asked() -> None:
    def gone(*_args: object) -> object:
        raise DatabaseError(f"postgres://user:{SECRET}@db/app: no route")

    with connection.execute_wrapper(gone):
        findings = list(examine(lambda: datetime.now(UTC)))
    assert findings[-1] == Finding("database", FAIL, "does not answer at its address", "check DATABASE_URL")
    assert SECRET not in str(findings)


def test_the_doctor_does_not_advise_to_start_workers_that_run(now: datetime) -> None:
    """Workers that have renewed their rows run; a broker that is away does not reach them."""
    for number in range(2):
        sign_in(f"celery@{number}", Process.Kind.WORKER, now=database_now())
    findings = {finding.check: finding for finding in examine_processes()}
    assert (findings["workers"].level, findings["workers"].detail) == (
        WARN,
        "2 run, 0 answer through the broker",
    )
    assert "start" not in findings["workers"].advice
    assert judge_workers(2, 2).level == judge_workers(1, 0).level == OK


def test_json_holds_every_finding_and_the_exit_code_is_1_without_a_beat() -> None:
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("punctual", "doctor", "--json", stdout=out)
    assert ended.value.code == 1
    findings = {finding["check"]: finding for finding in json.loads(out.getvalue())}
    assert findings["beats"]["level"] == FAIL
    assert findings["workers"]["level"] == FAIL
    assert findings["migrations"]["level"] == OK


def test_text_has_a_line_per_check_and_the_advice() -> None:
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("punctual", "doctor", stdout=out)
    assert "fail  beats" in out.getvalue()
    assert "→ start celery -A scheduler_project beat" in out.getvalue()
