"""Prepare the tables, static files and a login before the first process starts."""

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import Error as DatabaseError
from django.db import connections

from scheduler_project.up import logins
from scheduler_project.up.errors import RefusedError
from scheduler_project.up.programs import Options


def prepare(options: Options, *, migrate: bool) -> str:
    """Run the preparations; return the line that tells the operator how to log in."""
    try:
        if migrate:
            call_command("migrate", interactive=False, verbosity=0)
        if not settings.WHITENOISE_USE_FINDERS:
            call_command("collectstatic", interactive=False, verbosity=0)
        return _login(options)
    except DatabaseError as error:
        raise RefusedError(f"the database refused: {' '.join(str(error).split())}") from None
    except OSError as error:  # a read-only checkout or data folder
        raise RefusedError(f"cannot write {error.filename}: {error.strerror}") from None
    finally:
        _disconnect()


def _login(options: Options) -> str:
    if options.demo:
        password = logins.ensure_demo_user(settings.VAR_DIR, embedded=settings.EMBEDDED)
        return f"{logins.DEMO_USER} / {password}   (demo only: never for a server others can reach)"
    users = get_user_model()._default_manager  # noqa: SLF001  Django's documented access
    if users.filter(is_superuser=True).exists():
        return "with your own user"
    return "no user yet: create one with `manage.py createsuperuser`"


def _disconnect() -> None:
    """Close all connections: the supervisor may run for months and needs none."""
    for connection in connections.all(initialized_only=True):
        connection.close()
        if close_pool := getattr(connection, "close_pool", None):
            close_pool()
