"""The database session of a worker: its options, and how it is reset after code of users.

A session is a Django `DatabaseWrapper` of the project's own engine. It differs from the project's in its
options, in counting its uses, and in `reset`. PostgreSQL's is kept from message to message, SQLite's is not.
"""

from abc import abstractmethod
from collections.abc import Mapping
from datetime import UTC
from functools import cache
from typing import Any

from django.db.utils import load_backend

PREPARE_THRESHOLD = 2  # executions; then a statement that binds parameters on the server is planned once
MAX_IDLE_IN_TRANSACTION = 60_000  # milliseconds; a frozen worker must not keep its locks
IDLE_LIMIT = "idle_in_transaction_session_timeout"
# Detect a server that vanished without closing the connection, within about a minute.
NETWORK = {"connect_timeout": 5, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
CANCEL_TIMEOUT = 2.0  # seconds
IDLE, ACTIVE = 0, 1  # psycopg.pq.TransactionStatus; psycopg is missing in a SQLite installation
WRITE_AHEAD_LOG = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON;"
SQLITE_BUSY_TIMEOUT = 30  # seconds

# In one round trip. Prepared statements stay; the planner notices that the search path has changed back.
RESET = (
    "SET SESSION AUTHORIZATION DEFAULT; RESET ROLE; RESET ALL; CLOSE ALL; UNLISTEN *; DISCARD TEMP; "
    "SELECT pg_catalog.pg_advisory_unlock_all()"
)
# What Django and receivers of connection_created have set, such as a role: RESET forgets it.
SET_AT_START = (
    "SELECT 'role', pg_catalog.current_setting('role') WHERE pg_catalog.current_setting('role') <> 'none' "
    "UNION ALL SELECT name, setting FROM pg_catalog.pg_settings WHERE source = 'session'"
)


class Session:
    """Mixed into the engine's DatabaseWrapper."""

    keeps_open = False
    uses = 0
    runs_user_code = False
    _raw: Any = None

    @property
    def connection(self) -> Any:
        """The driver's connection. Django reads it for every statement, and so must all other code."""
        self.uses += 1
        return self._raw

    @connection.setter
    def connection(self, raw: Any) -> None:
        self._raw = raw

    def is_shared_database(self) -> bool:
        """Whether another connection sees the same tables."""
        return True

    def is_pristine(self: Any) -> bool:
        """Whether Django's own account of transactions is what it is on a new connection."""
        return bool(
            (self._raw is None or self.autocommit)
            and self.commit_on_exit
            and not (self.in_atomic_block or self.atomic_blocks or self.savepoint_ids)
            and not (self.needs_rollback or self.closed_in_transaction or self.run_on_commit)
        )

    @abstractmethod
    def is_idle(self) -> bool:
        """Whether no transaction is open, whatever Django knows of it."""

    @abstractmethod
    def reset(self) -> bool:
        """Remove what code of users has left in the session; False if it cannot be used any more."""

    def abandon(self) -> None:
        """Close the connection, whatever is under way."""
        if self._raw is not None:
            self._raw.close()


class PostgresSession(Session):
    keeps_open = True
    _attributes: Any = None
    _reset = RESET

    def connect(self: Any) -> None:
        super().connect()  # type: ignore[misc]  # of the wrapper
        use_fast_loader(self)
        self._attributes = _attributes(self._raw)
        self._reset = "; ".join([RESET, *_settings_of(self._raw)])

    def get_new_connection(self: Any, conn_params: dict[str, Any]) -> Any:
        try:
            return super().get_new_connection(conn_params)  # type: ignore[misc]
        except self.Database.OperationalError as error:
            if "startup parameter" not in str(error):
                raise
        # A pooler, which shares its connections: it may have neither settings nor statements of ours.
        plain = {**conn_params, "options": self.settings_dict["HOST_OPTIONS"], "prepare_threshold": None}
        return super().get_new_connection(plain)  # type: ignore[misc]

    def _set_autocommit(self: Any, autocommit: bool) -> None:  # noqa: FBT001 - Django's signature
        super()._set_autocommit(autocommit)  # type: ignore[misc]
        if self.runs_user_code and not autocommit and IDLE_LIMIT not in self.settings_dict["HOST_OPTIONS"]:
            # The limit is for statements of ours; a function may compute for as long as its task_timeout.
            self._raw.execute(f"SET LOCAL {IDLE_LIMIT} = 0")

    def is_idle(self) -> bool:
        return self._raw is None or self._raw.closed or self._raw.pgconn.transaction_status == IDLE

    def reset(self: Any) -> bool:
        raw = self._raw
        if raw is None or not self.is_pristine() or raw.closed or _attributes(raw) != self._attributes:
            return raw is None and self.is_pristine()
        try:
            raw.rollback()  # does nothing outside a transaction; raises while a statement is under way
            with raw.cursor() as cursor:
                cursor.execute(self._reset, prepare=False)
        except self.Database.Error:
            return False
        self.errors_occurred = False
        return True

    def abandon(self) -> None:
        raw = self._raw
        try:
            if raw is not None and raw.pgconn.transaction_status == ACTIVE:
                # Of an interrupted function. The server would not notice that the client is gone.
                raw.cancel_safe(timeout=CANCEL_TIMEOUT)
        finally:
            super().abandon()


class SqliteSession(Session):
    def is_shared_database(self: Any) -> bool:
        return not self.is_in_memory_db()

    def is_idle(self) -> bool:
        return self._raw is None or not self._raw.in_transaction

    def reset(self) -> bool:
        return False  # PRAGMAs, attached files, temporary tables: opening the file again is simpler


def create_session(host: Mapping[str, Any], alias: str, *, prepared: bool, lock_timeout: str = "") -> Any:
    """Return a wrapper with the options of the project and ours, not yet connected."""
    create = _session_class(host["ENGINE"])
    options = dict(host["OPTIONS"])
    settings: dict[str, Any] = {**host, "CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True, "AUTOCOMMIT": True}
    if not create.keeps_open:
        return create({**settings, "OPTIONS": sqlite_options(options)}, alias)
    settings["HOST_OPTIONS"] = _startup_options(options)
    wrapper: Any = create(settings, alias)
    limits = {"lock_timeout": lock_timeout} if lock_timeout else {}
    settings["OPTIONS"] = postgres_options(options, wrapper, prepared=prepared, **limits)
    return wrapper


def postgres_options(
    options: dict[str, Any], wrapper: Any, *, prepared: bool, **limits: str
) -> dict[str, Any]:
    """Return the project's options, which take precedence, and ours; no pool."""
    chosen = NETWORK | {key: value for key, value in options.items() if key != "pool"}
    if not prepared:
        return chosen | {"prepare_threshold": None}
    chosen.setdefault("prepare_threshold", PREPARE_THRESHOLD)
    if "service" in options:
        return chosen  # `options` would replace those of the service file
    # Settings of the start survive RESET ALL. Plans with the values of one call would be made five times.
    ours = {"TimeZone": wrapper.timezone_name, "plan_cache_mode": "force_generic_plan", **limits}
    if IDLE_LIMIT not in wrapper.settings_dict["HOST_OPTIONS"]:
        ours[IDLE_LIMIT] = str(MAX_IDLE_IN_TRANSACTION)
    texts = (wrapper.settings_dict["HOST_OPTIONS"], *(f"-c {name}={value}" for name, value in ours.items()))
    return chosen | {"options": " ".join(texts).strip()}


def sqlite_options(options: dict[str, Any]) -> dict[str, Any]:
    """Add what the ledger needs: a transaction waits for the write lock at BEGIN, readers do not wait."""
    commands = (str(options.get("init_command", "")).rstrip("; "), WRITE_AHEAD_LOG)
    return options | {
        "transaction_mode": "IMMEDIATE",
        "timeout": max(options.get("timeout", 0), SQLITE_BUSY_TIMEOUT),
        "init_command": "; ".join(filter(None, commands)),
    }


@cache
def _session_class(engine: str) -> type[Any]:
    wrapper: Any = load_backend(engine).DatabaseWrapper
    session = PostgresSession if wrapper.vendor == "postgresql" else SqliteSession
    return type(session.__name__, (session, wrapper), {})  # the engine may be one of the project's own


def _startup_options(options: Mapping[str, Any]) -> str:
    """Return the options that the project's connections start with: of its settings, or of PGOPTIONS."""
    if "options" in options:
        return str(options["options"])
    from psycopg.pq import Conninfo  # noqa: PLC0415 - missing in a SQLite installation

    defaults = {item.keyword: item.val for item in Conninfo.get_defaults()}
    return (defaults.get(b"options") or b"").decode()


def _attributes(raw: Any) -> tuple[Any, ...]:
    """Return what code of users can change of a connection without a statement."""
    return (
        *(raw.autocommit, raw.isolation_level, raw.read_only, raw.deferrable, raw.row_factory),
        *(raw.cursor_factory, raw.prepare_threshold, raw.pgconn.pipeline_status),
    )


def _settings_of(raw: Any) -> list[str]:
    """Return statements that repeat what was set since the session began."""
    from psycopg import sql  # noqa: PLC0415 - missing in a SQLite installation

    rows = raw.execute(SET_AT_START, prepare=False).fetchall()
    statement = sql.SQL("SELECT pg_catalog.set_config({}, {}, false)")
    return [statement.format(name, value).as_string(raw) for name, value in rows]


def use_fast_loader(connection: Any) -> None:
    """Let psycopg's C code load timestamps: 0.15 µs a value instead of 3 µs.

    Django replaces the C loader with a Python one that sets its zone on each result. Ours gives the same
    values. A tick with a thousand due occurrences reads ten thousand timestamps. For connections of our own
    to PostgreSQL, a worker's and a beat's; call again when the connection was replaced.
    """
    if connection.timezone is UTC:
        connection.connection.adapters.register_loader("timestamptz", _utc_loader())


@cache
def _utc_loader() -> type[Any]:
    from psycopg import adapters  # noqa: PLC0415 - missing in a SQLite installation
    from psycopg.types.datetime import TimestamptzLoader  # noqa: PLC0415

    fast: Any = adapters.get_loader(adapters.types["timestamptz"].oid, TimestamptzLoader.format)

    class UtcLoader(TimestamptzLoader):
        timezone = UTC  # Django replaces loaders with another zone

        def __new__(cls, oid: int, context: Any = None) -> Any:
            if context.connection.pgconn.parameter_status(b"TimeZone") == b"UTC":
                return fast(oid, context)
            return super().__new__(cls)

        def load(self, data: Any) -> Any:
            return super().load(data).astimezone(UTC)

    return UtcLoader
