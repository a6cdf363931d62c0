"""A fresh database has two groups: who may look, and who may also operate. Neither may write the ledger."""

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("groups"), pytest.mark.req("OPS-2")]


def permissions(name: str) -> set[str]:
    found = Group.objects.get(name=name).permissions.values_list("content_type__app_label", "codename")
    return {f"{app}.{codename}" for app, codename in found}


def test_readers_may_look_at_everything_and_do_nothing() -> None:
    found = permissions("Punctual: read-only")
    assert {"jobs.view_job", "occurrences.view_occurrence", "beat.view_beat"} <= found
    assert {name for name in found if ".view_" not in name} == set()


def test_operators_may_act_but_not_define() -> None:
    found = permissions("Punctual: operators")
    acts = {
        "jobs.trigger_job",
        "jobs.pause_job",
        "occurrences.cancel_occurrence",
        "occurrences.replay_occurrence",
    }
    assert acts <= found
    assert permissions("Punctual: read-only") < found
    assert not {name for name in found if ".add_" in name or ".delete_" in name or name == "jobs.change_job"}


def test_a_reader_sees_the_overview_and_no_buttons(pages: None) -> None:
    user = User.objects.create_user("reader", password=None, is_staff=True)
    user.groups.add(Group.objects.get(name="Punctual: read-only"))
    client = Client()
    client.force_login(user)
    text = client.get("/admin/").content.decode()
    assert "Starts per minute" in text
    assert client.get("/admin/jobs/job/").status_code == 200
    assert "Run now" not in client.get("/admin/jobs/job/").content.decode()
