import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from scheduler_project import environment

POSTGRES = {"DATABASE_URL": "postgres://user:secret@db.example.org:6432/punctual"}


@pytest.mark.parametrize("word", ["1", "true", "YES", " on "])
def test_a_flag_is_on(word: str) -> None:
    assert environment.flag({"DEBUG": word}, "DEBUG", default=False) is True


@pytest.mark.parametrize("word", ["0", "false", "No", "off", ""])
def test_a_flag_is_off(word: str) -> None:
    assert environment.flag({"DEBUG": word}, "DEBUG", default=True) is False


@pytest.mark.parametrize("default", [True, False])
def test_an_unset_flag_is_its_default(*, default: bool) -> None:
    assert environment.flag({}, "DEBUG", default=default) is default


def test_words_are_separated_by_commas_and_trimmed() -> None:
    assert environment.words({"HOSTS": " a.org, ,b.org,"}, "HOSTS") == ["a.org", "b.org"]
    assert environment.words({}, "HOSTS", default="c.org") == ["c.org"]


@pytest.mark.req("OPS-7")
@pytest.mark.parametrize(
    ("read", "message"),
    [
        (
            lambda: environment.flag({"DEBUG": "maybe"}, "DEBUG", default=False),
            "DEBUG='maybe': expected one of 1, 0, true, false, yes, no, on, off",
        ),
        (
            lambda: environment.number({"SIZE": "many"}, "SIZE", default=1),
            "SIZE='many': expected a whole number",
        ),
        (
            lambda: environment.number({"SIZE": "-1"}, "SIZE", default=1),
            "SIZE='-1': expected a whole number",
        ),
        (
            lambda: environment.number({"SIZE": "٣"}, "SIZE", default=1),
            "SIZE='٣': expected a whole number",
        ),
        (
            lambda: environment.database({"DATABASE_URL": "mysql://x/y"}, Path()),
            "DATABASE_URL: scheme 'mysql' is not one of postgres, postgresql, sqlite",
        ),
        (
            lambda: environment.broker_url({"BROKER_URL": "http://x"}, Path()),
            "BROKER_URL: scheme 'http' is not one of redis, rediss, redis+socket, amqp, amqps,",
        ),
        (
            lambda: environment.secret_key({"SECRET_KEY": ""}, Path(), embedded=False),
            "SECRET_KEY is not set; it is required when DATABASE_URL is set",
        ),
    ],
)
def test_a_bad_value_is_named_in_one_line(read: Callable[[], object], message: str) -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        read()
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


@pytest.mark.req("OPS-7")
def test_a_refused_database_url_does_not_show_its_password() -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        environment.database({"DATABASE_URL": "mysql://user:secret@x/y"}, Path())
    assert "secret" not in str(refused.value)


@pytest.mark.req("OPS-1")
def test_the_web_process_shares_a_pool_of_connections(tmp_path: Path) -> None:
    entry = environment.database(POSTGRES | {"DATABASE_POOL": "on", "DATABASE_POOL_SIZE": "3"}, tmp_path)
    assert entry["ENGINE"] == "django.db.backends.postgresql"
    assert (entry["HOST"], entry["PORT"], entry["NAME"]) == ("db.example.org", 6432, "punctual")
    assert entry["OPTIONS"]["pool"]["max_size"] == 3
    assert entry["CONN_MAX_AGE"] == 0  # Django refuses persistent connections beside a pool


@pytest.mark.req("OPS-1")
def test_beats_keep_one_connection_and_check_it(tmp_path: Path) -> None:
    entry = environment.database(POSTGRES, tmp_path)
    assert "pool" not in entry["OPTIONS"]
    assert (entry["CONN_MAX_AGE"], entry["CONN_HEALTH_CHECKS"]) == (600, True)


@pytest.mark.req("OPS-1")
def test_a_socket_folder_may_stand_for_the_host(tmp_path: Path) -> None:
    url = "postgres://postgres@%2Fvar%2Frun%2Fpostgresql/punctual"
    assert environment.database({"DATABASE_URL": url}, tmp_path)["HOST"] == "/var/run/postgresql"


@pytest.mark.req("OPS-1")
def test_without_a_url_the_database_is_a_file_that_writers_wait_for(tmp_path: Path) -> None:
    entry = environment.database({}, tmp_path / "var")
    assert entry["NAME"] == str(tmp_path / "var" / "punctual.sqlite3")
    assert (tmp_path / "var").is_dir()
    assert entry["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    assert "journal_mode=WAL" in entry["OPTIONS"]["init_command"]
    assert entry["OPTIONS"]["timeout"] >= 30


@pytest.mark.req("OPS-1")
def test_without_a_url_the_broker_is_a_socket_beside_the_database(tmp_path: Path) -> None:
    assert environment.broker_url({}, Path("/srv/var")) == "redis+socket:///srv/var/broker.sock"


@pytest.mark.req("OPS-1")
def test_a_deep_checkout_still_gets_a_socket_the_kernel_accepts() -> None:
    deep, deeper = Path("/" + "d" * 120), Path("/" + "d" * 121)
    assert len(os.fsencode(environment.embedded_socket(deep))) <= environment.MAX_SOCKET_PATH
    assert environment.embedded_socket(deep) == environment.embedded_socket(deep)
    assert environment.embedded_socket(deep) != environment.embedded_socket(deeper)


@pytest.mark.parametrize(
    ("env", "broker", "result"),
    [
        ({}, "redis://localhost/0", "redis://localhost/0"),
        ({}, "amqp://localhost//", None),
        ({"RESULT_URL": "redis://localhost/1"}, "amqp://localhost//", "redis://localhost/1"),
    ],
)
def test_results_go_to_the_broker_unless_it_cannot_keep_them(
    env: dict[str, str], broker: str, result: str | None
) -> None:
    assert environment.result_url(env, broker) == result


@pytest.mark.req("OPS-7")
def test_a_made_up_secret_key_is_long_private_and_stays(tmp_path: Path) -> None:
    key = environment.secret_key({}, tmp_path / "var", embedded=True)
    assert len(key) >= 50
    assert environment.secret_key({}, tmp_path / "var", embedded=True) == key
    assert stat.S_IMODE((tmp_path / "var" / "secret_key").stat().st_mode) == 0o600


def test_processes_that_start_together_agree_on_the_secret_key(tmp_path: Path) -> None:
    command = (
        "import pathlib, sys; from scheduler_project import environment;"
        "print(environment.secret_key({}, pathlib.Path(sys.argv[1]), embedded=True))"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", command, tmp_path], stdout=subprocess.PIPE) for _ in range(4)
    ]
    assert len({process.communicate()[0] for process in started}) == 1
    assert [process.returncode for process in started] == [0] * 4
    assert [path.name for path in tmp_path.iterdir()] == ["secret_key"]


def test_a_given_secret_key_leaves_no_file(tmp_path: Path) -> None:
    assert environment.secret_key({"SECRET_KEY": "mine"}, tmp_path, embedded=True) == "mine"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.req("OPS-6")
def test_an_unknown_format_is_refused_with_the_known_ones() -> None:
    assert environment.log_format({}) == "plain"
    assert environment.log_format({"LOG_FORMAT": "JSON"}) == "json"
    with pytest.raises(ImproperlyConfigured, match="LOG_FORMAT='xml': expected one of plain, json"):
        environment.log_format({"LOG_FORMAT": "xml"})
