"""Host and port → free, or the reason why nobody can listen there."""

import errno
import ipaddress
import socket

from scheduler_project.errors import RefusedError

HIGHEST_PORT = 65535


def check(host: str, port: int, *, option: str) -> None:
    """Refuse, naming the command line option that changes it, when the port cannot be bound."""
    if why := unusable(host, port):
        raise RefusedError(
            f"cannot listen on {address(host, port)}: {why}; choose another with {option}"
        )


def unusable(host: str, port: int) -> str | None:
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            # As gunicorn and Flower do: a connection lingering in TIME_WAIT is no obstacle.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(target)
    except OSError as error:
        return "the port is taken" if error.errno == errno.EADDRINUSE else str(error.strerror)
    return None


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def address(host: str, port: int) -> str:
    """`host:port` as URLs and gunicorn write it, with an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
