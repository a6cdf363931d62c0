import stat
from pathlib import Path

import pytest
from django.contrib.auth import authenticate, get_user_model
from pytest_django import Settings

from scheduler_project import demo_login
from scheduler_project.errors import RefusedError

pytestmark = [pytest.mark.django_db, pytest.mark.req("OPS-1")]


@pytest.fixture(autouse=True)
def hashing_is_fast(settings: Settings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def test_the_first_start_makes_a_superuser_with_a_private_random_password(tmp_path: Path) -> None:
    password = demo_login.ensure(tmp_path / "var", embedded=True)
    user = authenticate(username="demo", password=password)
    assert user is not None
    assert user.is_superuser
    kept = tmp_path / "var" / "demo_password"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert kept.read_text() == password
    assert len(password) >= 16


def test_the_next_start_keeps_it(tmp_path: Path) -> None:
    first = demo_login.ensure(tmp_path, embedded=True)
    hashed = get_user_model().objects.get(username="demo").password
    assert demo_login.ensure(tmp_path, embedded=True) == first
    assert get_user_model().objects.get(username="demo").password == hashed


def test_a_lost_password_is_renewed_in_the_embedded_database(tmp_path: Path) -> None:
    demo_login.ensure(tmp_path, embedded=True)
    (tmp_path / "demo_password").unlink()
    password = demo_login.ensure(tmp_path, embedded=True)
    assert authenticate(username="demo", password=password)


def test_somebody_elses_user_of_that_name_is_left_alone(tmp_path: Path) -> None:
    theirs = get_user_model().objects.create_user(username="demo", password="their own")  # noqa: S106
    with pytest.raises(RefusedError, match="a user `demo` with another password exists"):
        demo_login.ensure(tmp_path, embedded=False)
    theirs.refresh_from_db()
    assert theirs.check_password("their own")
    assert not theirs.is_superuser
