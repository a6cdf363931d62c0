"""No address with a NUL character fails a page, and every page forbids inline scripts."""

from datetime import datetime
from urllib.parse import quote, urlencode

import pytest
from django.contrib.contenttypes.models import ContentType
from django.test import Client
from django.urls import reverse

from tests.console.ledger_rows import make_story
from tests.console.paths import change_pages, filtered_lists, lists, pages

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-2", "OPS-7")]

NUL = "a\0b"
PARAMETERS = (
    "q", "state", "state__exact", "origin__exact", "action__exact", "cause__exact", "job__id__exact",
    "occurrence__job__id__exact", "run__occurrence__job__id__exact", "fingerprint__exact", "task__id__exact",
    "occurrence__id__exact", "run__id__exact", "scheduled_for_from_0", "scheduled_for_to_1", "after",
    "before", "o", "p", "e", "_to_field", "_popup", "span", "month", "job", "task", "fingerprint", "older",
    "runs", "jobs", "restore", "since", "until", "args__key",
)  # fmt: skip


def every_page(now: datetime) -> dict[str, str]:
    make_story("etl", now)
    auth = {"users": "/admin/auth/user/", "periodic tasks": "/admin/django_celery_beat/periodictask/"}
    return {**lists(), **pages(), **change_pages(), **auth}


def test_no_parameter_with_nul_fails_a_page(root: Client, now: datetime) -> None:
    for name, path in every_page(now).items():
        for parameter in PARAMETERS:
            for query in ({parameter: NUL}, {f"{parameter}{NUL}": "a"}):
                separator = "&" if "?" in path else "?"
                status = root.get(f"{path}{separator}{urlencode(query)}").status_code
                assert status < 500, (name, query)
    for name, path in filtered_lists().items():
        assert root.get(f"{path}%00").status_code < 500, name


def test_no_path_with_nul_fails(root: Client) -> None:
    kinds = ("job", "task", "jobversion", "occurrence", "taskrun", "attempt", "pool", "process", "audit")
    for kind in kinds:
        for page in ("change", "history", "delete"):
            assert root.get(f"/admin/punctual/{kind}/{quote(NUL)}/{page}/").status_code in (302, 400, 404)
    for path in ("/%00", "/admin/%00/", "/admin/dead-letters/%00/", "/admin/chores/%00/", "/admin/r/1/%00/"):
        assert root.get(path).status_code in (302, 400, 404), path


def test_a_posted_filter_of_dead_letters_with_nul_is_refused(root: Client, now: datetime) -> None:
    make_story("etl", now)
    for action in ("replay", "purge"):
        path = reverse("punctual_console:act_on_dead_letters", args=[action])
        for field in ("job", "task", "fingerprint", "q", "before", "older", "runs"):
            answer = root.post(path, {field: NUL, "reason": "a test"})
            assert answer.status_code == 400, (action, field)


def test_a_link_to_a_row_on_its_site_finds_a_page_or_none(root: Client) -> None:
    """`/admin/r/…` is Django's; an id that cannot belong to the table is not found."""
    for kind in ContentType.objects.values_list("pk", flat=True):
        for id_ in ("1", "nonsense", "00000000-0000-0000-0000-000000000001", "9" * 40):
            assert root.get(f"/admin/r/{kind}/{id_}/").status_code == 404, (kind, id_)


def test_every_page_forbids_inline_scripts(root: Client, now: datetime) -> None:
    for name, path in {**every_page(now), "login": "/admin/login/"}.items():
        policy = dict(
            part.strip().split(" ", 1)
            for part in root.get(path).headers["Content-Security-Policy"].split(";")
        )
        assert policy["script-src"] == "'self' 'unsafe-eval'", name
        assert policy["default-src"] == "'self'"
        assert (policy["object-src"], policy["base-uri"]) == ("'none'", "'none'")
        assert policy["frame-ancestors"] == "'none'"
