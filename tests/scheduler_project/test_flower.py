import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.core.exceptions import ImproperlyConfigured

from scheduler_project.flower import OPTIONS, configure, defaults, require_login

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
    require_login(SimpleNamespace(**given))


def test_no_login_is_refused() -> None:
    with pytest.raises(ImproperlyConfigured, match="set FLOWER_BASIC_AUTH=user:password"):
        require_login(SimpleNamespace(basic_auth=[], auth=""))
