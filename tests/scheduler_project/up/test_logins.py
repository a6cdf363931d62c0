import stat
from pathlib import Path

import pytest
from django.contrib.auth import authenticate, get_user_model
from pytest_django import Settings

from scheduler_project.up import logins
from scheduler_project.up.errors import RefusedError
from scheduler_project.up.logins import flower_login

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-1")]


@pytest.fixture(autouse=True)
def hashing_is_fast(settings: Settings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def test_the_first_start_makes_a_superuser_with_a_private_random_password(tmp_path: Path) -> None:
    password = logins.ensure_demo_user(tmp_path / "var", embedded=True)
    user = authenticate(username="demo", password=password)
    assert user is not None
    assert user.is_superuser
    kept = tmp_path / "var" / "demo_password"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert kept.read_text() == password
    assert len(password) >= 16


def test_the_next_start_keeps_it(tmp_path: Path) -> None:
    first = logins.ensure_demo_user(tmp_path, embedded=True)
    hashed = get_user_model().objects.get(username="demo").password
    assert logins.ensure_demo_user(tmp_path, embedded=True) == first
    assert get_user_model().objects.get(username="demo").password == hashed


def test_a_lost_password_is_renewed_in_the_embedded_database(tmp_path: Path) -> None:
    logins.ensure_demo_user(tmp_path, embedded=True)
    (tmp_path / "demo_password").unlink()
    password = logins.ensure_demo_user(tmp_path, embedded=True)
    assert authenticate(username="demo", password=password)


def test_an_existing_user_of_that_name_is_left_unchanged(tmp_path: Path) -> None:
    theirs = get_user_model().objects.create_user(username="demo", password="their own")  # noqa: S106
    with pytest.raises(RefusedError, match="a user `demo` with another password exists"):
        logins.ensure_demo_user(tmp_path, embedded=False)
    theirs.refresh_from_db()
    assert theirs.check_password("their own")
    assert not theirs.is_superuser


def test_flowers_password_is_generated_once_and_only_its_file_is_printed(tmp_path: Path) -> None:
    value, note = flower_login({}, tmp_path, demo=False)
    path = tmp_path / "flower_password"
    assert value == f"flower:{path.read_text()}" == flower_login({}, tmp_path, demo=False)[0]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert str(path) in note
    assert path.read_text() not in note


def test_flower_uses_the_given_login_or_the_demos(tmp_path: Path) -> None:
    assert flower_login({"FLOWER_BASIC_AUTH": "a:b"}, tmp_path, demo=True)[0] == "a:b"
    value, _ = flower_login({}, tmp_path, demo=True)
    assert value == f"demo:{(tmp_path / 'demo_password').read_text()}"
