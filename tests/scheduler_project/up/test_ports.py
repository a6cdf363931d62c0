import socket
from collections.abc import Iterator

import pytest

from scheduler_project.up import ports
from scheduler_project.up.errors import RefusedError


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.req("OPS-1")
def test_a_taken_port_is_refused_in_one_line_that_names_the_option(taken_port: int) -> None:
    with pytest.raises(RefusedError) as refused:
        ports.check("127.0.0.1", taken_port, option="--port")
    assert str(refused.value) == (
        f"cannot listen on 127.0.0.1:{taken_port}: the port is taken; choose another with --port"
    )


def test_a_free_port_passes(taken_port: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    ports.check("127.0.0.1", free, option="--port")


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(RefusedError, match=r"^cannot listen on 192\.0\.2\.1:8000: .+$"):
        ports.check("192.0.2.1", 8000, option="--port")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.9.1", "::1"])
def test_loopback(host: str) -> None:
    assert ports.is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])  # noqa: S104
def test_not_loopback(host: str) -> None:
    assert not ports.is_loopback(host)


def test_an_ipv6_host_is_written_in_brackets() -> None:
    assert ports.address("::1", 80) == "[::1]:80"
    assert ports.address("localhost", 80) == "localhost:80"
