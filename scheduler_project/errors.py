"""What can stop `manage.py up`, each told in one line.

UpError
├── RefusedError   a check failed before anything was started or written
└── GaveUpError    a program did not come up, or died too often
"""


class UpError(Exception):
    """Root of the errors of this package."""


class RefusedError(UpError):
    """A check failed before anything was started or written."""


class GaveUpError(UpError):
    """A program did not come up in time, or died too often; everything was stopped."""
