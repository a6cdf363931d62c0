"""`manage.py check` says which settings break what is promised."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.checks import run_checks
from django.test import override_settings

from execution.checks import AROUND, content, delivery, longest_timeout, patience, visibility
from execution.limits import Limits
from jobs import Context, Job
from jobs.registry import Registry
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
    assert [item.id for item in delivery(conf(**changes))] == expected


@pytest.mark.req("OPS-7")
@pytest.mark.parametrize(
    "changes",
    [{"accept_content": ["json", "pickle"]}, {"task_serializer": "pickle"}, {"result_serializer": "pickle"}],
)
def test_pickle_is_an_error(changes: dict[str, Any]) -> None:
    (found,) = content(conf(**changes))
    assert (found.id, found.is_serious()) == ("punctual.E001", True)


def test_a_lease_too_short_to_be_renewed_is_named() -> None:
    assert [item.id for item in patience(Limits(lease=timedelta(seconds=2)))] == ["punctual.W004"]
    assert list(patience(Limits())) == []


@pytest.mark.req("EXE-5")
def test_a_visibility_timeout_below_the_longest_task_timeout_is_named(declared: Registry) -> None:
    job = Job("long", "@daily", task_timeout="20m")

    @job.task(task_timeout="3h")
    def step(ctx: Context) -> None: ...

    longest = timedelta(hours=3) + AROUND
    assert longest_timeout() == longest
    assert [item.id for item in visibility(longest, longest)] == ["punctual.W005"]
    assert list(visibility(longest + timedelta(seconds=1), longest)) == []
    with configured(broker_transport_options={"visibility_timeout": 60}):
        assert [item.id for item in run_checks(tags=["punctual"])] == ["punctual.W005"]


def test_a_platform_layer_that_cannot_be_read_is_said_elsewhere(declared: Registry) -> None:
    with override_settings(PUNCTUAL={"task_timeout": "soon"}):
        assert longest_timeout() == timedelta(minutes=5) + AROUND
