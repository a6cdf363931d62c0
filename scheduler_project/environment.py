"""Read environment variables as typed values.

A missing or malformed variable raises ImproperlyConfigured with one line that names it.
"""

import hashlib
import os
import secrets
import tempfile
from collections.abc import Mapping
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

from punctual.schedules.durations import parse_duration
from scheduler_project.private_files import PrivateDatabase, make_folder

TRUE = {"1", "true", "yes", "on"}
FALSE = {"0", "false", "no", "off", ""}
REDIS_SCHEMES = ("redis", "rediss", "redis+socket")
BROKER_SCHEMES = (*REDIS_SCHEMES, "amqp", "amqps", "sentinel")
DATABASE_SCHEMES = ("postgres", "postgresql", "sqlite")
LOG_FORMATS = ("plain", "json")
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
MAX_SOCKET_PATH = 100  # bytes; the kernel's limit is 107


def flag(env: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = env.get(name)
    if text is None:
        return default
    word = text.strip().lower()
    if word not in TRUE | FALSE:
        raise ImproperlyConfigured(f"{name}={text!r}: expected one of 1, 0, true, false, yes, no, on, off")
    return word in TRUE


def number(env: Mapping[str, str], name: str, *, default: int) -> int:
    text = env.get(name, str(default))
    if not (text.isascii() and text.isdigit()):
        raise ImproperlyConfigured(f"{name}={text!r}: expected a whole number")
    return int(text)


def span(env: Mapping[str, str], name: str, *, default: timedelta) -> timedelta:
    if name not in env:
        return default
    duration = parse_duration(env[name])
    if not duration:
        raise ImproperlyConfigured(f"{name}={env[name]!r}: expected a duration such as 30s, 5m or 1h30m")
    return duration


def log_level(env: Mapping[str, str]) -> str:
    level = env.get("LOG_LEVEL", "INFO").upper()
    if level not in LOG_LEVELS:
        raise ImproperlyConfigured(f"LOG_LEVEL={level!r}: expected one of {', '.join(LOG_LEVELS)}")
    return level


def log_format(env: Mapping[str, str]) -> str:
    name = env.get("LOG_FORMAT", LOG_FORMATS[0]).lower()
    if name not in LOG_FORMATS:
        raise ImproperlyConfigured(f"LOG_FORMAT={name!r}: expected one of {', '.join(LOG_FORMATS)}")
    return name


def apps(env: Mapping[str, str]) -> list[str]:
    """Return PUNCTUAL_APPS: the packages whose `jobs` modules are discovered."""
    names = words(env, "PUNCTUAL_APPS")
    for name in names:
        if not _importable(name):
            raise ImproperlyConfigured(f"PUNCTUAL_APPS: no package named {name!r} can be imported")
    return names


def _importable(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def words(env: Mapping[str, str], name: str, *, default: str = "") -> list[str]:
    return [word.strip() for word in env.get(name, default).split(",") if word.strip()]


def secret_key(env: Mapping[str, str], var: Path, *, embedded: bool) -> str:
    """Return SECRET_KEY; the embedded default generates a key once and keeps it beside the database."""
    if key := env.get("SECRET_KEY"):
        return key
    if not embedded:
        raise ImproperlyConfigured("SECRET_KEY is not set; it is required when DATABASE_URL is set")
    path = var / "secret_key"
    make_folder(var)
    if not path.exists():
        # Processes that start at the same time each write a file of their own; the first link wins.
        draft = var / f".secret_key.{os.getpid()}"
        draft.touch(mode=0o600)
        draft.write_text(secrets.token_urlsafe(64))
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return path.read_text()


def database(env: Mapping[str, str], var: Path) -> dict[str, Any]:
    """Return Django's DATABASES entry for DATABASE_URL, tuned for its engine."""
    url = env.get("DATABASE_URL") or f"sqlite:///{var / 'punctual.sqlite3'}"
    scheme = url.partition(":")[0]
    if scheme not in DATABASE_SCHEMES:
        raise ImproperlyConfigured(
            f"DATABASE_URL: scheme {scheme!r} is not one of {', '.join(DATABASE_SCHEMES)}"
        )
    try:
        entry: dict[str, Any] = dict(dj_database_url.parse(url))
    except ValueError as error:
        raise ImproperlyConfigured(
            f"DATABASE_URL: not a URL that can be read: {type(error).__name__}"
        ) from None
    options = dict(entry.get("OPTIONS", {}))
    if scheme == "sqlite":
        # WAL: readers do not block the writer. IMMEDIATE takes the write lock at BEGIN: a transaction waits
        # for it (busy timeout) instead of failing halfway with "database is locked".
        options |= {
            "transaction_mode": "IMMEDIATE",
            "timeout": 30,
            "factory": PrivateDatabase,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;",
        }
        if not env.get("DATABASE_URL"):
            make_folder(var)
    else:
        options["connect_timeout"] = number(env, "DATABASE_CONNECT_TIMEOUT", default=5)
        # Detect a server that vanished without closing the connection, within about a minute.
        options |= {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
        if flag(env, "DATABASE_POOL", default=False):
            options["pool"] = {
                "min_size": 1,
                "max_size": number(env, "DATABASE_POOL_SIZE", default=8),
                "timeout": number(env, "DATABASE_CONNECT_TIMEOUT", default=5),
            }
    # With a pool, Django has to return the connection after every request.
    return entry | {
        "OPTIONS": options,
        "CONN_MAX_AGE": 0 if "pool" in options else 600,
        "CONN_HEALTH_CHECKS": "pool" not in options,
    }


def embedded_socket(var: Path) -> Path:
    """Return the socket of the bundled broker; a short path in the temp folder if `var` is too deep."""
    path = var / "broker.sock"
    if len(str(path).encode()) <= MAX_SOCKET_PATH:
        return path
    digest = hashlib.sha256(str(var).encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"punctual-{os.getuid()}-{digest}" / "broker.sock"


def broker_url(env: Mapping[str, str], var: Path) -> str:
    url = env.get("BROKER_URL") or f"redis+socket://{embedded_socket(var)}"
    scheme = url.partition(":")[0]
    if scheme not in BROKER_SCHEMES:
        raise ImproperlyConfigured(f"BROKER_URL: scheme {scheme!r} is not one of {', '.join(BROKER_SCHEMES)}")
    return url


def broker_options(env: Mapping[str, str], url: str) -> dict[str, Any]:
    if url.partition(":")[0] in REDIS_SCHEMES:
        return {
            "socket_timeout": 5,
            "socket_connect_timeout": 3,
            "visibility_timeout": number(env, "BROKER_VISIBILITY_TIMEOUT", default=3600),
        }
    # Have RabbitMQ confirm each message. Otherwise "accepted" would only mean "written to a socket".
    return {"confirm_publish": True}


def result_url(env: Mapping[str, str], broker: str) -> str | None:
    """Return the store that counts chords; without one (RabbitMQ alone) every run is a message of its own."""
    if url := env.get("RESULT_URL"):
        return url
    return None if broker.startswith("amqp") else broker
