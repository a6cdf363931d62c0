"""The wheel is one package, and it works in a host project of a virtualenv that holds nothing else.

The dependencies come from the environment that runs the tests; the package itself does not.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = """
INSTALLED_APPS += ["jobs", "django_celery_beat", "punctual"]
"""
MODELS = """
from django.db import models

class Job(models.Model):
    title = models.CharField(max_length=20)
"""
JOBS = """
from punctual import scheduled

@scheduled("*/5 * * * *")
def heartbeat(ctx):
    pass
"""
# An app of the host has the name of one of our rooms: it keeps its module, its table and its commands.
HOST = {
    "jobs/__init__.py": "",
    "jobs/models.py": MODELS,
    "jobs/migrations/__init__.py": "",
    "jobs/jobs.py": JOBS,
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build from a copy: a build writes into its source tree, and would pick up an older build there."""
    source, output = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    rooms = [path.readlink().name for path in (ROOT / "punctual").iterdir() if path.is_symlink()]
    for name in ("punctual", *rooms):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    options = ("--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir", str(output))
    run(sys.executable, "-m", "pip", "wheel", *options, str(source), cwd=source)
    (built,) = output.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def host(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Django project and its virtualenv, in which nothing but the wheel is installed."""
    folder = tmp_path_factory.mktemp("host")
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    options = ("--no-deps", "--no-index", "--quiet")
    run(sys.executable, "-m", "pip", "--python", str(python), "install", *options, str(wheel), cwd=folder)
    (site_packages,) = folder.glob("venv/lib/python*/site-packages")
    (site_packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    run(str(python), "-m", "django", "startproject", "host", ".", cwd=folder)
    with (folder / "host" / "settings.py").open("a") as settings:
        settings.write(SETTINGS)
    for name, text in HOST.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def run(*command: str, cwd: Path) -> str:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=kept | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def python(host: Path, *arguments: str) -> str:
    return run(str(host / "venv" / "bin" / "python"), *arguments, cwd=host)


def manage(host: Path, *arguments: str) -> str:
    return python(host, "manage.py", *arguments)


def test_the_wheel_has_one_top_level_package_with_all_its_files(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"punctual"}
    rooms = [path for path in (ROOT / "punctual").iterdir() if path.is_symlink()]
    assert len(rooms) >= 9
    sources = [ROOT / "punctual", *(path.resolve() for path in rooms)]
    expected = {
        f"punctual/{path.relative_to(ROOT / 'punctual' if source == sources[0] else ROOT)}"
        for source in sources
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.is_symlink()
    }
    assert expected - names == set()


def test_the_schedules_are_imported_without_django(host: Path) -> None:
    code = (
        "import punctual.schedules, sys;"
        "print(punctual.__file__, [name for name in ('django', 'celery') if name in sys.modules])"
    )
    location, _, loaded = python(host, "-c", code).strip().partition(" ")
    assert location.startswith(str(host)), "the installed wheel, not the checkout"
    assert loaded == "[]"


def test_a_host_migrates_and_its_own_app_of_the_same_name_is_untouched(host: Path) -> None:
    manage(host, "makemigrations", "jobs", "--verbosity", "0")
    manage(host, "migrate", "--verbosity", "0")
    code = (
        "from django.db import connection\n"
        "from jobs.models import Job\n"
        "Job.objects.create(title='of the host')\n"
        "print(*connection.introspection.table_names())\n"
    )
    tables = manage(host, "shell", "--verbosity", "0", "--command", code).split()
    assert {"jobs_job", "punctual_job", "punctual_occurrence"} <= set(tables)
    assert manage(host, "makemigrations", "--check", "--dry-run")
    manage(host, "punctual", "jobs", "sync")
    assert manage(host, "punctual", "jobs", "list").split()[:2] == ["heartbeat", "active"]
