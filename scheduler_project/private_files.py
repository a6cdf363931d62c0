"""Create folders and files that only their owner can read, private from the first moment."""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

FOLDER_MODE, FILE_MODE, UMASK = 0o700, 0o600, 0o077


def make_folder(folder: Path) -> None:
    """Create a private folder; an existing one keeps its permissions."""
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)


class PrivateDatabase(sqlite3.Connection):
    """A connection to an SQLite file that is private if this connection creates it.

    SQLite would create the file with the permissions of the process's umask. The write-ahead log and the
    shared memory beside it get the permissions of the file.
    """

    def __init__(self, database: str, *args: Any, **options: Any) -> None:
        # An error such as a missing folder is for SQLite to report.
        with suppress(OSError):
            if is_file(database):
                os.close(os.open(database, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
        super().__init__(database, *args, **options)


def is_file(database: str) -> bool:
    """Whether the name is a path, and not a database in memory or a URI."""
    return bool(database) and not str(database).startswith((":memory:", "file:"))
