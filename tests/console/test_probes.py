"""Probes are answered whatever name they ask for, over plain HTTP too; nothing else is."""

import pytest
from django.test import Client, override_settings


@pytest.mark.req("OPS-4")
@override_settings(ALLOWED_HOSTS=["punctual.example.org"], SECURE_SSL_REDIRECT=True)
@pytest.mark.parametrize(("path", "status"), [("/healthz", 200), ("/metrics", 200)])
def test_a_probe_by_address_is_answered(db: None, path: str, status: int) -> None:
    assert Client().get(path, headers={"host": "10.0.0.7:8000"}).status_code == status


@override_settings(ALLOWED_HOSTS=["punctual.example.org"])
def test_any_other_page_still_refuses_a_foreign_name(db: None) -> None:
    assert Client().get("/admin/", headers={"host": "10.0.0.7:8000"}).status_code == 400


def test_a_probe_takes_no_other_method() -> None:
    assert Client().post("/healthz").status_code == 405
