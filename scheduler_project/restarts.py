"""When a program died → restart it after a pause, or give up."""

from collections.abc import Sequence

MOST_DEATHS = 5
WINDOW = 60.0
LONGEST_PAUSE = 10.0


def pause_before_restart(deaths: Sequence[float], *, now: float) -> float | None:
    """Seconds to wait after the latest of `deaths`; None when it died too often to go on."""
    recent = sum(now - death <= WINDOW for death in deaths)
    if recent >= MOST_DEATHS:
        return None
    return min(2.0 ** (recent - 1), LONGEST_PAUSE)
