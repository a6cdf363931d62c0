"""What is wrong with an installation is said in one line with its remedy, and never with its secrets."""

import json
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from celery import current_app
from django.core.management import call_command
from django.db import DatabaseError, connection
from django.test import override_settings

from console.doctor import (
    FAIL,
    OK,
    WARN,
    Finding,
    check_broker,
    check_jobs,
    check_settings,
    examined,
    judged_migrations,
    judged_skew,
    judged_visibility,
    longest,
)
from occurrences.models import Cursor
from tests.console.rows import make_job, make_task

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("OPS-3")]

HOUR = timedelta(hours=1)
SECRET = "hunter2"  # noqa: S105 - made up


def levels(found: list[Finding]) -> dict[str, str]:
    return {one.check: one.level for one in found}


@pytest.mark.parametrize(
    ("seconds", "level"), [(0.1, OK), (-0.4, OK), (2, WARN), (-2, WARN), (6, FAIL), (-3600, FAIL)]
)
def test_a_clock_that_disagrees_is_noted_then_refused(seconds: float, level: str) -> None:
    assert judged_skew(timedelta(seconds=seconds)).level == level


def test_the_clocks_difference_is_measured(now: datetime) -> None:
    found = levels(list(examined(clock=lambda: datetime.now(UTC) + HOUR)))
    assert found["clock"] == FAIL


def test_a_visibility_timeout_must_cover_the_longest_execution(now: datetime) -> None:
    make_job("short", now, config={"execution_timeout": "5m"})
    make_job("long", now, config={"execution_timeout": "3h"})
    make_job("gone", now, config={"execution_timeout": "9h"}, removed_at=now)
    assert longest() == 3 * HOUR
    assert judged_visibility(HOUR, 3 * HOUR).level == WARN
    assert judged_visibility(3 * HOUR, 3 * HOUR).level == OK


def test_missing_migrations_come_with_their_remedy() -> None:
    assert judged_migrations(0).level == OK
    assert judged_migrations(2).advice == "run manage.py migrate"


@override_settings(DEBUG=True)
def test_unsafe_settings_are_named() -> None:
    assert [one.detail for one in check_settings()] == ["DEBUG is unsafe"]


@override_settings(PUNCTUAL={"mode": "sideways"})
def test_a_wrong_platform_layer_is_named() -> None:
    assert [one.level for one in check_settings()] == [FAIL]


def test_jobs_that_cannot_be_planned_or_run_are_counted(now: datetime) -> None:
    job = make_job("broken", now)
    Cursor.objects.update_or_create(job=job, defaults={"settled_until": now, "problem": "no"})
    make_task(make_job("lost", now), registered=False)
    assert [(one.level, one.detail) for one in check_jobs()] == [
        (FAIL, "1 cannot be planned"),
        (WARN, "1 name functions no code registers"),
    ]


def test_a_broker_that_is_gone_is_named_without_its_address() -> None:
    before = current_app.conf.broker_url
    current_app.conf.update(broker_url=f"redis://user:{SECRET}@127.0.0.1:1/0")
    try:
        (found,) = check_broker()
    finally:
        current_app.conf.update(broker_url=before)
    assert found.level == FAIL
    assert SECRET not in str(found)
    assert "127.0.0.1" not in str(found)


def test_without_a_broker_the_rest_is_still_examined() -> None:
    before = current_app.conf.broker_url
    current_app.conf.update(broker_url=f"redis+socket://:{SECRET}@/nowhere.sock")
    try:
        found = {one.check: one for one in examined(lambda: datetime.now(UTC))}
    finally:
        current_app.conf.update(broker_url=before)
    assert found["broker"].level == FAIL
    assert (found["workers"].level, found["workers"].detail) == (FAIL, "0 answer")
    assert "jobs" in found
    assert SECRET not in str(found)


def test_without_a_database_the_rest_is_not_asked() -> None:
    def gone(*_args: object) -> object:
        raise DatabaseError(f"postgres://user:{SECRET}@db/app: no route")

    with connection.execute_wrapper(gone):
        found = list(examined(lambda: datetime.now(UTC)))
    assert found[-1] == Finding("database", FAIL, "unreachable (DatabaseError)", "check DATABASE_URL")
    assert SECRET not in str(found)


def test_the_command_answers_programs_and_fails_when_nobody_ticks() -> None:
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("doctor", "--json", stdout=out)
    assert ended.value.code == 1
    found = {one["check"]: one for one in json.loads(out.getvalue())}
    assert found["beats"]["level"] == FAIL
    assert found["workers"]["level"] == FAIL
    assert found["migrations"]["level"] == OK


def test_people_read_a_line_and_what_to_do() -> None:
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("doctor", stdout=out)
    assert "fail  beats" in out.getvalue()
    assert "→ start celery -A scheduler_project beat" in out.getvalue()
