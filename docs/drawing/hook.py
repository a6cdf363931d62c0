"""MkDocs hook that draws Mermaid fences while the site is built. MkDocs loads this file by its path."""

import sys
from pathlib import Path
from typing import Any

ROOT = str(Path(__file__).resolve().parents[2])


def on_config(config: Any) -> Any:
    if ROOT not in sys.path:
        sys.path.insert(0, ROOT)
    from docs.drawing.fence import fence  # noqa: PLC0415 - found from here on

    mermaid = {"name": "mermaid", "class": "mermaid", "format": fence}
    config.mdx_configs.setdefault("pymdownx.superfences", {})["custom_fences"] = [mermaid]
    return config
