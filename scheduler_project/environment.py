"""Environment variables → typed values; what is missing or malformed is named in one line."""

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

from schedules.durations import parse_duration

TRUE = {"1", "true", "yes", "on"}
FALSE = {"0", "false", "no", "off", ""}
BROKER_SCHEMES = ("redis", "rediss", "redis+socket", "amqp", "amqps", "sentinel")
DATABASE_SCHEMES = ("postgres", "postgresql", "sqlite")
LOG_FORMATS = ("plain", "json")
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
LONGEST_SOCKET_PATH = 100  # the kernel's limit is 107 bytes; valkey appends nothing, we keep a margin


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


def span(env: Mapping[str, str], name: str, *, default: str) -> timedelta:
    text = env.get(name, default)
    found = parse_duration(text)
    if not found:
        raise ImproperlyConfigured(f"{name}={text!r}: expected a duration such as 30s, 5m or 1h30m")
    return found


def log_level(env: Mapping[str, str]) -> str:
    level = env.get("LOG_LEVEL", "INFO").upper()
    if level not in LOG_LEVELS:
        raise ImproperlyConfigured(f"LOG_LEVEL={level!r}: expected one of {', '.join(LOG_LEVELS)}")
    return level


def log_format(env: Mapping[str, str]) -> str:
    found = env.get("LOG_FORMAT", LOG_FORMATS[0]).lower()
    if found not in LOG_FORMATS:
        raise ImproperlyConfigured(f"LOG_FORMAT={found!r}: expected one of {', '.join(LOG_FORMATS)}")
    return found


def apps(env: Mapping[str, str]) -> list[str]:
    """PUNCTUAL_APPS: the packages whose `jobs` modules are discovered."""
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
    """SECRET_KEY; on the embedded default a key made once and kept beside the database."""
    if key := env.get("SECRET_KEY"):
        return key
    if not embedded:
        raise ImproperlyConfigured("SECRET_KEY is not set; it is required when DATABASE_URL is set")
    path = var / "secret_key"
    var.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        # Several processes may start at once: each writes its own file, the first link wins.
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
    """DATABASE_URL → Django's DATABASES entry, tuned for the engine it names."""
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
        # WAL lets readers go on beside the one writer; IMMEDIATE takes the write lock at BEGIN, so a
        # transaction waits its turn (busy timeout) instead of failing halfway with "database is locked".
        options |= {
            "transaction_mode": "IMMEDIATE",
            "timeout": 30,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;",
        }
        if not env.get("DATABASE_URL"):
            var.mkdir(parents=True, exist_ok=True)
    else:
        # Only statements of ours that say so are prepared; Django's own are sent as text, as ever.
        options["prepare_threshold"] = 2 if flag(env, "DATABASE_PREPARE", default=True) else None
        options["connect_timeout"] = number(env, "DATABASE_CONNECT_TIMEOUT", default=5)
        # A server that vanished without a word must not keep a worker waiting for hours.
        options |= {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
        if flag(env, "DATABASE_POOL", default=False):
            options["pool"] = {
                "min_size": 1,
                "max_size": number(env, "DATABASE_POOL_SIZE", default=8),
                "timeout": number(env, "DATABASE_CONNECT_TIMEOUT", default=5),
            }
    # A pool keeps connections itself; Django must then hand each one back after every request.
    return entry | {
        "OPTIONS": options,
        "CONN_MAX_AGE": 0 if "pool" in options else 600,
        "CONN_HEALTH_CHECKS": "pool" not in options,
    }


def embedded_socket(var: Path) -> Path:
    """Where the bundled broker listens; a deep checkout gets a short path in the temp folder."""
    path = var / "broker.sock"
    if len(str(path).encode()) <= LONGEST_SOCKET_PATH:
        return path
    digest = hashlib.sha256(str(var).encode()).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"punctual-{os.getuid()}-{digest}" / "broker.sock"


def broker_url(env: Mapping[str, str], var: Path) -> str:
    url = env.get("BROKER_URL") or f"redis+socket://{embedded_socket(var)}"
    scheme = url.partition(":")[0]
    if scheme not in BROKER_SCHEMES:
        raise ImproperlyConfigured(f"BROKER_URL: scheme {scheme!r} is not one of {', '.join(BROKER_SCHEMES)}")
    return url


def result_url(env: Mapping[str, str], broker: str) -> str | None:
    """Where chords count; without it (RabbitMQ alone) parallel runs go out as single messages."""
    if url := env.get("RESULT_URL"):
        return url
    return None if broker.startswith("amqp") else broker
