"""A copy of the project in a folder of its own, in which commands run as a reader runs them."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.docs.markdown import ROOT

LEFT_OUT = ("tests/", "benchmarks/", "docs/", "docker/")
TIMEOUT = 240.0  # seconds; every command takes a few on an idle machine


@dataclass(frozen=True)
class Clone:
    """`.venv` is that of the tests; nothing else is shared, and no variable of this process is passed on."""

    folder: Path

    def write(self, path: str, text: str) -> None:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def add_app(self, name: str, jobs: str) -> None:
        self.write(f"{name}/__init__.py", "")
        self.write(f"{name}/jobs.py", jobs)

    def environment(self, **variables: str) -> dict[str, str]:
        path = os.pathsep.join((str(self.folder / ".venv/bin"), "/usr/local/bin", "/usr/bin", "/bin"))
        return {"PATH": path, "HOME": str(self.folder), "LANG": "C.UTF-8", **variables}

    def sh(self, script: str, *, stdin: str = "", **variables: str) -> str:
        """Run lines of a shell; the first one that fails ends them, and the test."""
        ended = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.folder,
            env=self.environment(**variables),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert ended.returncode == 0, f"{script}\n{ended.stdout}\n{ended.stderr}"
        return ended.stdout

    def start(self, script: str, **variables: str) -> subprocess.Popen[str]:
        """Start a command in a session of its own; its output is in `output.log`."""
        with (self.folder / "output.log").open("w") as output:
            return subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", script],
                cwd=self.folder,
                env=self.environment(**variables),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                text=True,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        return (self.folder / "output.log").read_text(errors="replace")


def make_clone(folder: Path) -> Clone:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        if not name.startswith(LEFT_OUT) and (ROOT / name).exists():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target, follow_symlinks=False)
    (folder / ".venv").symlink_to(Path(sys.prefix))
    return Clone(folder)
