"""A host's worker is the same with Punctual as without it, but for the worker's own channel."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.architecture.source import ROOT

pytestmark = [pytest.mark.req("ADO-3")]


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Any:
    @cache
    def run(*, absent: bool) -> dict[str, Any]:
        return start_worker(tmp_path_factory.mktemp("host"), absent=absent)

    return run


def start_worker(folder: Path, *, absent: bool) -> dict[str, Any]:
    queue = f"host-{uuid4()}"
    done = subprocess.run(
        [sys.executable, "-m", "tests.architecture.host.worker", queue],
        cwd=ROOT,
        env={
            "PATH": os.environ["PATH"],
            "BROKER_URL": os.environ["BROKER_URL"],
            "DJANGO_SETTINGS_MODULE": "tests.architecture.host.settings",
            "HOST_DATABASE": str(folder / "host.sqlite3"),
            "PUNCTUAL_ABSENT": "yes" if absent else "",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def test_nothing_of_celery_kombu_psycopg_or_python_is_replaced(worker: Any) -> None:
    assert worker(absent=False)["changed"] == worker(absent=True)["changed"]


def test_celery_s_support_for_django_is_celery_s_own(worker: Any) -> None:
    assert worker(absent=False)["fixups"] == ["celery.fixups.django.DjangoFixup"]


def test_the_worker_s_own_channel_records_no_message_of_ours(worker: Any) -> None:
    assert (worker(absent=True)["delivery"], worker(absent=False)["delivery"]) == ("QoS", "UnrecordedQoS")
    assert worker(absent=False)["prefetch"] == worker(absent=True)["prefetch"] == 3
