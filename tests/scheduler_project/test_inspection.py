import pytest
from celery.worker.control import Panel

from punctual.jobs.redaction import HIDDEN
from scheduler_project import inspection

pytestmark = pytest.mark.req("OPS-7")


def test_an_answer_shows_no_password_of_any_address() -> None:
    answer = inspection.redact_answer(
        lambda _state: {"broker": {"alternates": ["sentinel://:word@a:1"], "port": 1}}
    )
    assert answer(None) == {"broker": {"alternates": [f"sentinel://{HIDDEN}@a:1"], "port": 1}}


def test_every_answer_of_a_worker_is_redacted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Panel, "data", dict(Panel.data))
    inspection.install()
    first = dict(Panel.data)
    inspection.install()
    assert Panel.data == first
    assert {"stats", "conf", "report", "dump_conf"} <= first.keys()
    assert all(hasattr(one, "__wrapped__") for one in first.values())
