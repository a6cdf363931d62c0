"""The no-op as django-q2 calls it: by its dotted name."""


def noop() -> None: ...
