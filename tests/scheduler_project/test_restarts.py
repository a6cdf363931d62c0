import pytest

from scheduler_project.restarts import MOST_DEATHS, WINDOW, pause_before_restart


@pytest.mark.parametrize(("deaths", "pause"), [(1, 1), (2, 2), (3, 4), (4, 8)])
def test_each_death_doubles_the_pause(deaths: int, pause: float) -> None:
    assert pause_before_restart([100.0] * deaths, now=100.0) == pause


def test_too_many_deaths_in_the_window_end_it() -> None:
    assert pause_before_restart([100.0] * MOST_DEATHS, now=100.0 + WINDOW) is None


def test_deaths_before_the_window_are_forgotten() -> None:
    old = [0.0] * (MOST_DEATHS * 2)
    assert pause_before_restart([*old, 100.0], now=100.0) == 1
