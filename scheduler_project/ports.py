"""Host and port → free, or one line saying why nobody can listen there."""

import errno
import ipaddress
import socket

from scheduler_project.errors import RefusedError


def check(host: str, port: int, *, option: str) -> None:
    """Refuse when nobody can listen there; `option` is what the user changes when it is taken."""
    try:
        _listen(host, port)
    except OSError as error:
        taken = f"the port is taken; choose another with {option}"
        why = taken if error.errno == errno.EADDRINUSE else error.strerror
        raise RefusedError(f"cannot listen on {address(host, port)}: {why}") from None


def _listen(host: str, port: int) -> None:
    family, kind, protocol, _, target = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    with socket.socket(family, kind, protocol) as probe:
        # As gunicorn and Flower do: a connection lingering in TIME_WAIT is no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(target)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def address(host: str, port: int) -> str:
    """`host:port` as URLs and gunicorn write it, with an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
