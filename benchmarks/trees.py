"""Unpack another revision of the repository, with the benchmarks of this tree, into a temporary folder."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("benchmarks/road_app", "benchmarks/stack.py", "benchmarks/trees.py", "benchmarks/walk.py")


@contextmanager
def unpacked(revision: str) -> Iterator[Path]:
    """An archive, not a worktree: a benchmark that is killed leaves no entry in the repository."""
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, check=True, capture_output=True).stdout
    with tempfile.TemporaryDirectory(prefix="punctual-tree-") as name:
        folder = Path(name).resolve()
        with tarfile.open(fileobj=BytesIO(archive)) as packed:
            packed.extractall(folder, filter="tar")
        for path in COPIED:
            _copy(ROOT / path, folder / path)
        yield folder


def describe(revision: str = "") -> str:
    """The short name of a revision, of the tree itself with a mark if it has uncommitted changes."""
    words = ["git", "describe", "--always", *([revision] if revision else ["--dirty"])]
    return subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)
