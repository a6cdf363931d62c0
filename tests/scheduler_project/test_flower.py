import os
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.core.exceptions import ImproperlyConfigured

from scheduler_project.flower import OPTIONS, configure, defaults, demand_login, login

pytestmark = pytest.mark.req("OPS-5")


def test_variables_outweigh_the_file() -> None:
    assert defaults({}) == OPTIONS
    assert defaults({"FLOWER_READ_ONLY": "off"}).keys() == {"address", "tasks_columns"}


def test_another_configuration_file_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWER_CONF", "")  # put back what was there when the test is over
    del os.environ["FLOWER_CONF"]
    configure()
    assert Path(os.environ["FLOWER_CONF"]).is_file()
    os.environ["FLOWER_CONF"] = "mine.py"
    configure()
    assert os.environ["FLOWER_CONF"] == "mine.py"


@pytest.mark.parametrize("given", [{"basic_auth": ["a:b"], "auth": ""}, {"basic_auth": None, "auth": ".*@x"}])
def test_any_kind_of_login_will_do(given: dict[str, object]) -> None:
    demand_login(SimpleNamespace(**given))


def test_no_login_is_refused() -> None:
    with pytest.raises(ImproperlyConfigured, match="set FLOWER_BASIC_AUTH=user:password"):
        demand_login(SimpleNamespace(basic_auth=[], auth=""))


def test_up_makes_a_password_once_and_tells_where_it_is_not_what_it_is(tmp_path: Path) -> None:
    value, told = login({}, tmp_path, demo=False)
    path = tmp_path / "flower_password"
    assert value == f"flower:{path.read_text()}" == login({}, tmp_path, demo=False)[0]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert str(path) in told
    assert path.read_text() not in told


def test_up_takes_the_given_login_and_the_demo_s_own(tmp_path: Path) -> None:
    assert login({"FLOWER_BASIC_AUTH": "a:b"}, tmp_path, demo=True)[0] == "a:b"
    value, _ = login({}, tmp_path, demo=True)
    assert value == f"demo:{(tmp_path / 'demo_password').read_text()}"
