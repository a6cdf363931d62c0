"""A fresh database has two groups: readers and operators. Neither may write the ledger."""

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, User
from django.test import Client

from punctual.operations.permissions import OPERATORS, READERS, SEND_MESSAGES, Permission

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("groups"), pytest.mark.req("OPS-2")]


def permissions(name: str) -> set[str]:
    found = Group.objects.get(name=name).permissions.values_list("content_type__app_label", "codename")
    return {f"{app}.{codename}" for app, codename in found}


def test_readers_may_look_at_everything_and_do_nothing() -> None:
    found = permissions(READERS)
    assert {"punctual.view_job", "punctual.view_occurrence", "punctual.view_process"} <= found
    assert {name for name in found if ".view_" not in name} == set()


def test_operators_may_act_but_not_define() -> None:
    found = permissions(OPERATORS)
    assert found == permissions(READERS) | {*Permission, "punctual.change_pool"}
    assert not {
        name for name in found if ".add_" in name or ".delete_" in name or name == "punctual.change_job"
    }


def test_a_reader_sees_the_overview_and_no_buttons(pages: None) -> None:
    user = User.objects.create_user("reader", password=None, is_staff=True)
    user.groups.add(Group.objects.get(name=READERS))
    client = Client()
    client.force_login(user)
    text = client.get("/admin/").content.decode()
    assert "Starts per minute" in text
    assert client.get("/admin/punctual/job/").status_code == 200
    assert "Run now" not in client.get("/admin/punctual/job/").content.decode()


def test_a_model_declares_every_permission_that_actions_ask_for() -> None:
    declared = {
        f"punctual.{codename}"
        for model in apps.get_app_config("punctual").get_models()
        for codename, _ in model._meta.permissions
    }
    assert declared == {*Permission, SEND_MESSAGES}
