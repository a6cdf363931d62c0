from datetime import timedelta

import pytest

from beat.heartbeat import FORGOTTEN_AFTER, sign_in, sign_out, tick_done
from beat.models import Beat
from tests.execution.conftest import NOW

pytestmark = pytest.mark.django_db

LATER = NOW + timedelta(seconds=3)


def test_a_beat_signs_in_once_however_often_it_starts() -> None:
    sign_in("host:1", NOW)
    sign_in("host:1", LATER)
    (row,) = Beat.objects.all()
    assert (row.started_at, row.ticked_at, row.lag) == (LATER, LATER, timedelta())


def test_a_tick_leaves_its_time_and_how_long_it_took() -> None:
    sign_in("host:1", NOW)
    sign_in("host:2", NOW)
    tick_done("host:1", started=NOW, now=LATER)
    row = Beat.objects.get(name="host:1")
    assert (row.started_at, row.ticked_at, row.lag) == (NOW, LATER, timedelta(seconds=3))
    assert Beat.objects.get(name="host:2").ticked_at == NOW


def test_beats_long_gone_are_forgotten_when_the_next_one_starts() -> None:
    sign_in("gone:1", NOW)
    sign_in("quiet:2", NOW + timedelta(microseconds=1))
    sign_in("host:3", NOW + FORGOTTEN_AFTER + timedelta(microseconds=1))
    assert set(Beat.objects.values_list("name", flat=True)) == {"quiet:2", "host:3"}


def test_a_beat_that_was_forgotten_while_it_was_frozen_signs_in_again() -> None:
    tick_done("host:1", started=NOW, now=LATER)
    assert Beat.objects.get().ticked_at == LATER


def test_a_beat_that_stops_signs_out_and_only_itself() -> None:
    sign_in("host:1", NOW)
    sign_in("host:2", NOW)
    sign_out("host:1")
    sign_out("host:1")
    assert [row.name for row in Beat.objects.all()] == ["host:2"]
