"""Examples that `--help` shows below each verb. A test parses every one of them."""

from argparse import RawDescriptionHelpFormatter
from typing import Any

EXIT_CODES = "exit code: 0 done, 1 refused or not everything done, 2 the command line was not understood"

EXAMPLES: dict[str, tuple[str, ...]] = {
    "jobs list": ("jobs list", "jobs list --json"),
    "jobs show": ("jobs show nightly-etl", "jobs show nightly-etl --json"),
    "jobs next": ("jobs next nightly-etl -n 10",),
    "jobs trigger": (
        "jobs trigger nightly-etl",
        """jobs trigger nightly-etl --args '{"day": "2026-01-05"}' --key "again for monday" """.strip(),
        """jobs trigger nightly-etl --config '{"task_timeout": "1h"}'""",
    ),
    "jobs pause": (
        "jobs pause nightly-etl --reason 'the disk is replaced'",
        "jobs pause nightly-etl --until 2026-01-05T18:00Z --backlog last",
    ),
    "jobs resume": ("jobs resume nightly-etl", "jobs resume nightly-etl --backlog last"),
    "jobs start": ("jobs start nightly-etl",),
    "jobs stop": ("jobs stop nightly-etl --reason 'its source is gone'",),
    "jobs remove": ("jobs remove nightly-etl --dry-run", "jobs remove nightly-etl --reason 'replaced'"),
    "jobs sync": ("jobs sync", "jobs sync --json"),
    "jobs history": ("jobs history nightly-etl",),
    "jobs restore": ("jobs restore nightly-etl 3 --reason 'the new one was wrong'",),
    "jobs export": ("jobs export > fleet.json", "jobs export nightly-etl"),
    "jobs apply": ("jobs apply fleet.yaml --dry-run", "jobs apply fleet.yaml"),
    "jobs import_beat": ("jobs import_beat --dry-run", "jobs import_beat"),
    "occurrences list": (
        "occurrences list --job nightly-etl --state failed",
        "occurrences list --from 2026-01-05T00:00:00Z --to 2026-01-06T00:00:00Z -n 100 --json",
    ),
    "occurrences show": ("occurrences show occ_f4a5318a-f2b5-53c2-b3c0-1b208a7021c9",),
    "occurrences cancel": (
        "occurrences cancel occ_f4a5318a-f2b5-53c2-b3c0-1b208a7021c9 --reason 'wrong file'",
        "occurrences cancel --job nightly-etl --dry-run",
    ),
    "occurrences skip": ("occurrences skip --job nightly-etl --to 2026-01-06T00:00:00Z --dry-run",),
    "occurrences replay": (
        "occurrences replay occ_f4a5318a-f2b5-53c2-b3c0-1b208a7021c9 --failed-only",
        "occurrences replay --job nightly-etl --from 2026-01-05 --to 2026-01-06 --dry-run",
    ),
    "dlq list": ("dlq list --groups", "dlq list --job nightly-etl --json"),
    "dlq show": ("dlq show run_e02410a7-3d4e-5c52-8bfe-e94060e83eb8",),
    "dlq replay": (
        "dlq replay --fingerprint 2efb448ea806bb97 --reason 'fixed'",
        "dlq replay --all --dry-run",
    ),
    "dlq purge": ("dlq purge --older-than 30d --dry-run", "dlq purge --older-than 30d"),
    "ledger verify": ("ledger verify", "ledger verify --job nightly-etl --from 2026-01-01"),
    "backfill": ("backfill nightly-etl --from 2026-01-01 --to 2026-01-31 --dry-run",),
    "prune": ("prune --dry-run", "prune --job nightly-etl --reason 'the disk is full'"),
    "recover": ("recover --dry-run", "recover --job nightly-etl --reason 'the beats were off'"),
    "reap": ("reap --dry-run", "reap --reason 'a host died' --json"),
    "resend": ("resend --dry-run", "resend --reason 'the broker was emptied'"),
    "settle": ("settle --dry-run", "settle --reason 'workers were restarted'"),
    "schedule explain": (
        "schedule explain '0 9 * * MON-FRI' --tz Europe/Berlin",
        "schedule explain '@every 90m {jitter:5m}' -n 3 --json",
        "schedule explain '30 2 * * *' --tz America/New_York --after 2026-03-07T00:00:00Z",
    ),
    "doctor": ("doctor", "doctor --json", "doctor || page-me"),
}


def epilog_for(words: str) -> dict[str, Any]:
    """Return the arguments that make a parser show the examples of a verb as they are written."""
    lines = [f"  manage.py punctual {line}" for line in EXAMPLES[words]]
    epilog = "\n".join(["examples:", *lines, "", EXIT_CODES])
    return {"epilog": epilog, "formatter_class": RawDescriptionHelpFormatter}
