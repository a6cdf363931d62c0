"""Actions on django-celery-beat's periodic tasks need the permission to change them."""

import pytest
from django.test import Client
from django_celery_beat.models import PeriodicTask

from tests.beat.periodic_tasks.factories import saved_periodic_task
from tests.console.fixtures import Viewer, pages, viewer

__all__ = ["pages", "viewer"]
pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2", "OPS-7")]

PATH = "/admin/django_celery_beat/periodictask/"
ACTIONS = ("enable_tasks", "disable_tasks", "toggle_tasks", "run_tasks")
VIEW, CHANGE = "django_celery_beat.view_periodictask", "django_celery_beat.change_periodictask"


def press(client: Client, action: str, row: PeriodicTask) -> str:
    answer = client.post(PATH, {"action": action, "_selected_action": [row.pk]}, follow=True)
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("enabled", [True, False])
def test_a_reader_changes_and_runs_nothing(viewer: Viewer, action: str, *, enabled: bool) -> None:
    row = saved_periodic_task(enabled=enabled)
    before = PeriodicTask.objects.values().get()
    shown = press(viewer(VIEW), action, row)
    assert PeriodicTask.objects.values().get() == before
    assert "successfully" not in shown
    assert action not in shown


def test_who_may_change_them_may_also_switch_them(viewer: Viewer) -> None:
    row = saved_periodic_task(enabled=True)
    assert "successfully disabled" in press(viewer(VIEW, CHANGE), "disable_tasks", row)
    assert not PeriodicTask.objects.get().enabled
