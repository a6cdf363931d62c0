"""`manage.py check` says which settings break what is promised."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.core.checks import run_checks
from django.db import connection
from django.test import override_settings

from punctual import Context, Job
from punctual.checks import (
    MESSAGE_OVERHEAD,
    check_database,
    check_delivery,
    check_lease,
    check_punctual,
    check_serializers,
    check_time_zones,
    check_visibility_timeout,
    longest_timeout,
)
from punctual.conf import Settings
from punctual.jobs.declaration.registry import Registry
from tests.execution.conftest import configured

GOOD = {
    "task_acks_late": True,
    "task_reject_on_worker_lost": True,
    "worker_prefetch_multiplier": 1,
    "accept_content": ["json"],
    "task_serializer": "json",
    "result_serializer": "json",
}


def conf(**changes: Any) -> SimpleNamespace:
    return SimpleNamespace(**GOOD | changes)


def test_the_project_s_own_settings_are_sound() -> None:
    assert run_checks(tags=["punctual"]) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"task_acks_late": False}, ["punctual.W001"]),
        ({"task_reject_on_worker_lost": None}, ["punctual.W002"]),
        ({"worker_prefetch_multiplier": 8}, []),
        ({"worker_prefetch_multiplier": 9}, ["punctual.W003"]),
        ({"worker_prefetch_multiplier": 0}, ["punctual.W003"]),
    ],
)
def test_settings_under_which_messages_are_lost_or_held_up_are_named(
    changes: dict[str, Any], expected: list[str]
) -> None:
    assert [item.id for item in check_delivery(conf(**changes))] == expected


@pytest.mark.req("OPS-7")
@pytest.mark.parametrize(
    "changes",
    [{"accept_content": ["json", "pickle"]}, {"task_serializer": "pickle"}, {"result_serializer": "pickle"}],
)
def test_pickle_is_an_error(changes: dict[str, Any]) -> None:
    (found,) = check_serializers(conf(**changes))
    assert (found.id, found.is_serious()) == ("punctual.E001", True)


def test_a_lease_too_short_to_be_renewed_is_named() -> None:
    assert [item.id for item in check_lease(Settings(lease=timedelta(seconds=2)))] == ["punctual.W004"]
    assert list(check_lease(Settings())) == []


@pytest.mark.req("EXE-5")
def test_a_visibility_timeout_below_the_longest_task_timeout_is_named(declared: Registry) -> None:
    job = Job("long", "@daily", task_timeout="20m")

    @job.task(task_timeout="3h")
    def step(ctx: Context) -> None: ...

    longest = timedelta(hours=3) + MESSAGE_OVERHEAD
    assert longest_timeout() == longest
    assert [item.id for item in check_visibility_timeout(longest, longest)] == ["punctual.W005"]
    assert list(check_visibility_timeout(longest + timedelta(seconds=1), longest)) == []
    with configured(broker_transport_options={"visibility_timeout": 60}):
        assert [item.id for item in run_checks(tags=["punctual"])] == ["punctual.W005"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"task_timeout": "soon"}, "PUNCTUAL: task_timeout='soon': "),
        ({"colour": "red"}, "PUNCTUAL: colour='red': unknown setting"),
        ({"lease": "soon"}, "PUNCTUAL['lease']='soon': expected a duration"),
        ({"worker_slots": "many"}, "PUNCTUAL['worker_slots']='many': expected a whole number"),
        ("30s", "PUNCTUAL='30s': expected a dictionary"),
    ],
)
def test_a_wrong_value_in_punctual_is_an_error_of_one_line(given: Any, message: str) -> None:
    with override_settings(PUNCTUAL=given):
        (error,) = check_punctual()
    assert (error.id, error.is_serious()) == ("punctual.E002", True)
    assert error.msg.startswith(message)


@override_settings(USE_TZ=False)
def test_naive_instants_are_an_error() -> None:
    assert [item.id for item in check_time_zones()] == ["punctual.E003"]


@pytest.mark.parametrize(
    ("vendor", "expected"), [("postgresql", []), ("sqlite", []), ("mysql", ["punctual.E004"])]
)
def test_another_database_than_postgresql_and_sqlite_is_an_error(
    monkeypatch: pytest.MonkeyPatch, vendor: str, expected: list[str]
) -> None:
    monkeypatch.setattr(connection, "vendor", vendor)
    assert [item.id for item in check_database()] == expected


def test_an_sqlite_without_returning_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "vendor", "sqlite")
    monkeypatch.setattr("sqlite3.sqlite_version_info", (3, 34, 1))
    assert [item.id for item in check_database()] == ["punctual.E004"]


def test_another_alias_than_default_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(settings.DATABASES, "other", settings.DATABASES["default"])
    with override_settings(PUNCTUAL={"database": "other"}):
        assert [item.id for item in check_punctual()] == ["punctual.E005"]


def test_a_wrong_platform_layer_does_not_hide_the_longest_timeout(declared: Registry) -> None:
    with override_settings(PUNCTUAL={"task_timeout": "soon"}):
        assert longest_timeout() == timedelta(minutes=5) + MESSAGE_OVERHEAD
