"""Data of the embedded platform is private from the moment it is created."""

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from scheduler_project import environment
from scheduler_project.private_files import PrivateDatabase, is_file, make_folder
from scheduler_project.up.bundled_broker import lock_folder

pytestmark = pytest.mark.req("OPS-7")

ROOT = Path(__file__).resolve().parents[2]
GIVEN = ("DATABASE_URL", "BROKER_URL", "SECRET_KEY")


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """The permissions must not depend on a careful umask."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_database_its_log_and_its_shared_memory_are_private(tmp_path: Path) -> None:
    entry = environment.database({}, tmp_path / "var")
    assert mode(tmp_path / "var") == 0o700
    factory = entry["OPTIONS"]["factory"]
    with closing(sqlite3.connect(entry["NAME"], factory=factory, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t (a)")
        files = {path.name: mode(path) for path in (tmp_path / "var").iterdir()}
    assert files == {f"punctual.sqlite3{end}": 0o600 for end in ("", "-wal", "-shm")}


def test_migrations_of_the_embedded_platform_leave_no_file_that_others_can_read(tmp_path: Path) -> None:
    var = tmp_path / "var"
    kept = {name: value for name, value in os.environ.items() if name not in GIVEN}
    command = [sys.executable, "manage.py", "migrate", "--verbosity", "0", "django_celery_beat"]
    subprocess.run(command, cwd=ROOT, env={**kept, "PUNCTUAL_VAR": str(var)}, check=True)
    assert mode(var) == 0o700
    assert {path.name: mode(path) for path in var.iterdir()} == {
        "punctual.sqlite3": 0o600,
        "secret_key": 0o600,
    }


def test_an_existing_database_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "shared.sqlite3"
    path.touch(mode=0o660)
    path.chmod(0o660)
    PrivateDatabase(str(path)).close()
    assert mode(path) == 0o660


def test_an_error_is_sqlite_s_own(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError, match="unable to open database file"):
        PrivateDatabase(str(tmp_path / "missing" / "a.sqlite3"))


def test_a_database_in_memory_creates_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    PrivateDatabase(":memory:").close()
    PrivateDatabase("file:memorydb?mode=memory&cache=shared", uri=True).close()
    assert list(tmp_path.iterdir()) == []
    assert not is_file("")


def test_the_folder_of_the_supervisor_is_private(tmp_path: Path) -> None:
    lock_folder(tmp_path / "var")
    assert mode(tmp_path / "var") == 0o700
    make_folder(tmp_path)  # an existing folder is left as it is
