"""VAR_DIR → the demo's login: a random password, made once, readable by its owner only."""

import os
import secrets
from pathlib import Path

from django.contrib.auth import get_user_model
from django.db import transaction

from scheduler_project.errors import RefusedError

USERNAME = "demo"


def ensure(var: Path, *, embedded: bool) -> str:
    """The password of the demo's superuser; outside the embedded database never somebody else's."""
    password = kept_password(var / "demo_password")
    users = get_user_model()._default_manager  # noqa: SLF001  Django's documented access
    with transaction.atomic():
        user, created = users.get_or_create(
            username=USERNAME, defaults={"is_staff": True, "is_superuser": True}
        )
        if created or not user.check_password(password):
            if not (created or embedded):
                raise RefusedError(
                    f"a user `{USERNAME}` with another password exists in this database;"
                    " rename it, or start without --demo"
                )
            user.set_password(password)
            user.save()
    return password


def kept_password(path: Path) -> str:
    """Made once, readable by its owner only."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        # O_EXCL and the mode: never written into a file that others can read.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(12))
    return path.read_text().strip()
