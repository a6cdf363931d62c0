"""The decision to start or wait, case by case, without a database or a clock."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from punctual.polling.deserialization import StoredTask
from punctual.polling.eligibility import Holder, Start, StartReason, Wait, decide, minute_of
from punctual.polling.registrations import Rule

pytestmark = pytest.mark.req("POL-2")

NOW = datetime(2026, 1, 5, 12, 0, 20, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def task(cron: str = "0 * * * *", **fields: Any) -> StoredTask:
    known: dict[str, Any] = {
        "name": "a",
        "rule": Rule(cron, SECOND),
        "scheduler_id": UUID(int=1),
        "counts_from": NOW - timedelta(days=1),
        "last_attempt_at": None,
        "last_success_at": None,
        "pending_retry_until": None,
    }
    return StoredTask(**known | fields)


HOUR = timedelta(hours=1)
NOON = minute_of(NOW)
ONE = NOON + HOUR


@pytest.mark.parametrize(
    ("fields", "holder", "decision"),
    [
        ({}, None, Start(StartReason.DUE, NOON)),
        ({"last_attempt_at": NOW - 2 * HOUR}, None, Start(StartReason.DUE, NOON)),
        ({"last_attempt_at": NOON - SECOND}, None, Start(StartReason.DUE, NOON)),
        ({"last_attempt_at": NOON}, None, Wait(ONE)),
        ({"counts_from": NOON}, None, Start(StartReason.DUE, NOON)),
        ({"counts_from": NOON + timedelta(minutes=1)}, None, Wait(ONE)),
        ({"pending_retry_until": NOW}, None, Start(StartReason.RETRY)),
        ({"pending_retry_until": NOW + SECOND}, None, Start(StartReason.DUE, NOON)),
        ({"last_attempt_at": NOON, "pending_retry_until": NOW + SECOND}, None, Wait(NOW + SECOND)),
        ({"last_attempt_at": NOON, "pending_retry_until": NOW + 2 * HOUR}, None, Wait(ONE)),
        ({"pending_retry_until": NOW}, Holder(lease_until=NOW + SECOND), Wait(NOW + SECOND)),
        ({"last_attempt_at": NOW}, Holder(lease_until=NOW), Start(StartReason.INTERRUPTED)),
        ({"last_attempt_at": NOW}, Holder(lost=True), Start(StartReason.INTERRUPTED)),
    ],
)
def test_checks_go_in_order_running_interrupted_retry_minute(
    fields: dict[str, Any], holder: Holder | None, decision: Start | Wait
) -> None:
    assert decide(task(**fields), zone="UTC", now=NOW, holder=holder) == decision


def test_cron_fields_are_local_time_in_the_zone() -> None:
    assert decide(task("0 13 * * *"), zone="Europe/Berlin", now=NOW) == Start(StartReason.DUE, NOON)


def test_a_pattern_without_a_next_minute_waits_indefinitely() -> None:
    now = datetime(9999, 6, 1, tzinfo=UTC)
    assert decide(task("0 0 29 2 *", counts_from=now), zone="UTC", now=now) == Wait(None)


def test_a_pattern_without_an_earlier_minute_waits_for_its_first() -> None:
    now = datetime(1, 1, 2, tzinfo=UTC)
    decision = decide(task("0 0 29 2 *", counts_from=now), zone="UTC", now=now)
    assert decision == Wait(datetime(4, 2, 29, tzinfo=UTC))
