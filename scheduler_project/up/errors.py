"""The errors that end `manage.py up`, each with a message of one line.

UpError
├── RefusedError   a check failed before anything was started or written
└── GaveUpError    a program did not become ready, or exited too often
"""


class UpError(Exception):
    """Root of the errors of this package."""


class RefusedError(UpError):
    """A check failed before anything was started or written."""


class GaveUpError(UpError):
    """A program did not become ready in time, or exited too often; everything was stopped."""
