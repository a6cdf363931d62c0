"""The site contains every page and builds without a warning."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
KEPT_OUT = {"conformance.md"}  # its links lead into the source tree


def named(nav: Any) -> set[str]:
    if isinstance(nav, str):
        return {nav}
    inner = nav.values() if isinstance(nav, dict) else nav
    return {page for item in inner for page in named(item)}


@pytest.mark.req("OPS-2")
def test_every_page_is_in_the_navigation() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert named(site["nav"]) == pages - KEPT_OUT
    assert site["strict"] is True


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    text = (tmp_path / "api" / "index.html").read_text()
    assert "idempotency_key" in text, "from the docstring of trigger"
    assert "fonts.googleapis" not in text
    for page, count in (("states", 2), ("architecture", 2)):
        text = (tmp_path / page / "index.html").read_text()
        assert text.count('<svg class="diagram"') == count, (
            "drawn while building, not by a script in the browser"
        )
        assert "-->" not in re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL), "no diagram is left as text"
