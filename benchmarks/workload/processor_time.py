"""Processor seconds used by processes and all their descendants, including ended ones."""

import os
from collections import defaultdict
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def seconds_used(*roots: int) -> float:
    children: dict[int, list[int]] = defaultdict(list)
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            _read_stat(entry, children, ticks)
    total, todo = 0, list(roots)
    while todo:
        pid = todo.pop()
        total += ticks.get(pid, 0)
        todo += children[pid]
    return total / TICKS


def _read_stat(entry: Path, children: dict[int, list[int]], ticks: dict[int, int]) -> None:
    try:
        fields = (entry / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return  # the process has ended
    pid, parent = int(entry.name), int(fields[1])
    children[parent].append(pid)
    ticks[pid] = sum(int(value) for value in fields[11:15])  # own time and that of ended children
