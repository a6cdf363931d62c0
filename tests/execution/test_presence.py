"""A worker's row: there while it is on duty, renewed by the clock, taken away when it stops."""

from datetime import datetime, timedelta

import pytest

from execution.models import Worker
from execution.presence import FORGOTTEN_AFTER, RENEWED_EVERY, Presence, renew, sign_in, sign_out
from tests.execution.conftest import NOW

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2")]

LATER = NOW + timedelta(seconds=7)


def rows() -> dict[str, tuple[datetime, datetime]]:
    return {row.name: (row.started_at, row.seen_at) for row in Worker.objects.all()}


def test_it_signs_in_at_once_and_then_writes_every_few_seconds() -> None:
    presence = Presence("celery@a")
    assert presence.run_once(at=100.0, clock=lambda: NOW)
    assert not presence.run_once(at=100.0 + RENEWED_EVERY - 0.1, clock=lambda: LATER)
    assert rows() == {"celery@a": (NOW, NOW)}
    assert presence.run_once(at=100.0 + RENEWED_EVERY, clock=lambda: LATER)
    assert rows() == {"celery@a": (NOW, LATER)}


def test_one_that_starts_again_under_the_same_name_started_then() -> None:
    sign_in("celery@a", NOW)
    sign_in("celery@a", LATER)
    assert rows() == {"celery@a": (LATER, LATER)}


def test_a_failed_write_is_tried_again_at_the_next_pass() -> None:
    presence = Presence("celery@a")

    def away() -> datetime:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        presence.run_once(at=100.0, clock=away)
    assert presence.run_once(at=100.1, clock=lambda: NOW)
    assert rows() == {"celery@a": (NOW, NOW)}


def test_one_whose_row_was_taken_away_signs_in_again() -> None:
    renew("celery@a", LATER)
    assert rows() == {"celery@a": (LATER, LATER)}


def test_one_that_signs_off_leaves_the_others() -> None:
    sign_in("celery@a", NOW)
    sign_in("celery@b", NOW)
    sign_out("celery@a")
    assert set(rows()) == {"celery@b"}


def test_those_long_gone_are_forgotten_when_the_next_one_starts() -> None:
    sign_in("gone", NOW)
    sign_in("quiet", NOW + timedelta(microseconds=1))
    sign_in("next", NOW + FORGOTTEN_AFTER + timedelta(microseconds=1))
    assert set(rows()) == {"quiet", "next"}
