"""The logins that `up` provides: the demo's superuser and Flower's basic authentication.

Each password is random, generated once, and kept in a file that only its owner can read.
"""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from django.contrib.auth import get_user_model
from django.db import transaction

from scheduler_project.private_files import make_folder
from scheduler_project.up.errors import RefusedError

DEMO_USER = "demo"
FLOWER_USER = "flower"


def ensure_demo_user(var: Path, *, embedded: bool) -> str:
    """Create the demo's superuser and return its password.

    Outside the embedded database an existing user of that name with another password is refused.
    """
    password = read_password(var / "demo_password")
    users = get_user_model()._default_manager  # noqa: SLF001  Django's documented access
    with transaction.atomic():
        user, created = users.get_or_create(
            username=DEMO_USER, defaults={"is_staff": True, "is_superuser": True}
        )
        if created or not user.check_password(password):
            if not (created or embedded):
                raise RefusedError(
                    f"a user `{DEMO_USER}` with another password exists in this database;"
                    " rename it, or start without --demo"
                )
            user.set_password(password)
            user.save()
    return password


def flower_login(env: Mapping[str, str], var: Path, *, demo: bool) -> tuple[str, str]:
    """Return the value of FLOWER_BASIC_AUTH, and the text that tells the operator about it."""
    if given := env.get("FLOWER_BASIC_AUTH"):
        return given, "login: FLOWER_BASIC_AUTH"
    if demo:
        return f"{DEMO_USER}:{read_password(var / 'demo_password')}", "the same login"
    path = var / "flower_password"
    return f"{FLOWER_USER}:{read_password(path)}", f"login: {FLOWER_USER}, password in {path}"


def read_password(path: Path) -> str:
    """Read the password in this file; generate it if there is none."""
    if not path.exists():
        make_folder(path.parent)
        # O_EXCL and the mode: never written into a file that others can read.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(12))
    return path.read_text().strip()
