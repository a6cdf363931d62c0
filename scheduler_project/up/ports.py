"""Check that a server can listen on a host and port."""

import errno
import ipaddress
import socket

from scheduler_project.up.errors import RefusedError


def check(host: str, port: int, *, option: str) -> None:
    """Refuse if the port cannot be used; `option` is the option that changes it."""
    try:
        _listen(host, port)
    except OSError as error:
        taken = f"the port is taken; choose another with {option}"
        reason = taken if error.errno == errno.EADDRINUSE else error.strerror
        raise RefusedError(f"cannot listen on {address(host, port)}: {reason}") from None


def _listen(host: str, port: int) -> None:
    family, kind, protocol, _, target = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    with socket.socket(family, kind, protocol) as probe:
        # gunicorn and Flower set it too: a connection in TIME_WAIT does not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(target)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def address(host: str, port: int) -> str:
    """Return `host:port` as URLs and gunicorn write it, with an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
