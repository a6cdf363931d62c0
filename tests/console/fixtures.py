"""Fixtures for tests that render pages; a test module imports those it names."""

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest
from django.apps import apps
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext

from punctual.jobs.declaration.registry import registry

Viewer = Callable[..., Client]


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[None]:
    """Serve static files from the packages: tests do not run collectstatic.

    The registry is put back afterwards, for these tests write functions into it.
    """
    storages = {
        "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
    direct = override_settings(STATIC_ROOT=tmp_path, STORAGES=storages, WHITENOISE_USE_FINDERS=True)
    with registry.isolated(), direct:
        yield


@pytest.fixture
def viewer(pages: None, db: None) -> Viewer:
    """Log in a member of staff with exactly these permissions: `viewer("punctual.view_job")`."""

    def log_in(*permissions: str) -> Client:
        user = User.objects.create_user("operator", password=None, is_staff=True)
        for permission in permissions:
            app, codename = permission.split(".")
            user.user_permissions.add(Permission.objects.get(content_type__app_label=app, codename=codename))
        client = Client()
        client.force_login(user)
        return client

    return log_in


@pytest.fixture
def root(pages: None, admin_user: User) -> Client:
    """Log in a superuser."""
    client = Client()
    client.force_login(admin_user)
    return client


@pytest.fixture
def groups(db: None) -> None:
    """Create the groups as the migration does; tests that truncate all tables delete them."""
    import_module("punctual.migrations.0002_groups").add_groups(apps, None)


def page(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200, f"{path}: {response.status_code}"
    return response.content.decode()


def queries(client: Client, path: str) -> list[str]:
    page(client, path)  # the first view of a process also warms caches
    with CaptureQueriesContext(connection) as captured:
        page(client, path)
    return [query["sql"] for query in captured.captured_queries]
