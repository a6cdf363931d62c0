"""This machine → the version of the zone rules that `zoneinfo` reads on it."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from zoneinfo import TZPATH


@cache
def zone_data_version() -> str:
    """The system's rules come first, as they do for `zoneinfo`; then those of the `tzdata` package."""
    for folder in TZPATH:
        if found := _system(Path(folder)):
            return f"{found} (system)"
    try:
        return f"{version('tzdata')} (package tzdata)"
    except PackageNotFoundError:
        return "unknown"


def _system(folder: Path) -> str:
    if (folder / "+VERSION").is_file():
        return (folder / "+VERSION").read_text().strip()
    listing = folder / "tzdata.zi"
    if not listing.is_file():
        return ""
    with listing.open() as lines:
        first = next(lines, "")
    return first.removeprefix("# version ").strip() if first.startswith("# version ") else ""
