"""Settings → how Flower starts here: with a login, read-only, columns people can read (OPS-5).

Messages carry readable names and arguments (`execution.messages`); this is about who may look, and where.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from scheduler_project import demo_login

USERNAME = "flower"
OPTIONS = {
    "address": "127.0.0.1",
    "tasks_columns": "name,args,state,received,runtime,worker",
    # What is done here passes by permissions, reasons and the log: the console is the place for it.
    "read_only": True,
}


def configure() -> None:
    """Have Flower read `flowerconfig` unless it was told of another file."""
    os.environ.setdefault("FLOWER_CONF", str(Path(__file__).with_name("flowerconfig.py")))


def defaults(env: Mapping[str, str]) -> dict[str, Any]:
    """To Flower its file outweighs variables: what they say is left to them."""
    return {name: value for name, value in OPTIONS.items() if f"FLOWER_{name.upper()}" not in env}


def demand_login(options: Any) -> None:
    if not (options.basic_auth or options.auth):
        raise ImproperlyConfigured(
            "Flower would be open to everybody: set FLOWER_BASIC_AUTH=user:password, or --auth"
        )


def login(env: Mapping[str, str], var: Path, *, demo: bool) -> tuple[str, str]:
    """For `up`: the value of FLOWER_BASIC_AUTH, and the words that tell people about it."""
    if given := env.get("FLOWER_BASIC_AUTH"):
        return given, "login: FLOWER_BASIC_AUTH"
    if demo:
        return f"{demo_login.USERNAME}:{demo_login.kept_password(var / 'demo_password')}", "the same login"
    path = var / "flower_password"
    return f"{USERNAME}:{demo_login.kept_password(path)}", f"login: {USERNAME}, password in {path}"
