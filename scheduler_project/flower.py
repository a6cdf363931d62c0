"""Configure Flower: a login is required, it is read-only, and its columns are readable (OPS-5).

Messages carry readable names and arguments (`punctual.execution`); this module decides who may see them.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured

OPTIONS = {
    "address": "127.0.0.1",
    "tasks_columns": "name,args,state,received,runtime,worker",
    # The console is the place to act: it checks permissions, asks for a reason and writes the audit.
    "read_only": True,
}


def configure() -> None:
    """Point Flower at `flowerconfig` unless FLOWER_CONF names another file."""
    os.environ.setdefault("FLOWER_CONF", str(Path(__file__).with_name("flowerconfig.py")))


def defaults(env: Mapping[str, str]) -> dict[str, Any]:
    """Return the options that no variable sets; Flower would let its file overrule the variables."""
    return {name: value for name, value in OPTIONS.items() if f"FLOWER_{name.upper()}" not in env}


def require_login(options: Any) -> None:
    if not (options.basic_auth or options.auth):
        raise ImproperlyConfigured(
            "Flower would be open to every visitor: set FLOWER_BASIC_AUTH=user:password, or --auth"
        )
