"""Take the pictures of docs/images from the running demo: `make screenshots`, about three minutes.

Starts `manage.py up --demo` on a database and a broker of its own, lets it work for a while, logs in with
the printed password, and takes each page in light and dark.
"""

import importlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.guardian import Guardian
from tests.servers import make_folder

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
PORT = 8765
WORKING, PATIENCE = 130.0, 120.0  # seconds
PAGES = {"overview": "/admin/", "timeline": "/admin/timeline/?span=15m", "jobs": "/admin/punctual/job/",
         "dead-letters": "/admin/dead-letters/", "occurrences": "/admin/punctual/occurrence/",
         "workers": "/admin/workers/"}  # fmt: skip
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


@contextmanager
def demo() -> Iterator[str]:
    """Run the demo; yield the password."""
    guardian, folder = Guardian(), make_folder("punctual-shots-")
    guardian.remove(folder)
    log = folder / "up.log"
    env = {**os.environ, "PUNCTUAL_VAR": str(folder / "var")}
    command = [sys.executable, "manage.py", "up", "--demo", "--no-flower", "--port", str(PORT)]
    with log.open("wb") as output:
        up = subprocess.Popen(
            command, cwd=ROOT, env=env, stdout=output, stderr=output, start_new_session=True
        )
    guardian.watch(up.pid)
    try:
        yield password(log)
    finally:
        up.terminate()
        up.wait(timeout=60)
        guardian.close()


def password(log: Path) -> str:
    deadline = time.monotonic() + PATIENCE
    while not (found := re.search(r"login\s+demo / (\S+)", log.read_text())):
        if time.monotonic() > deadline:
            sys.exit(f"the demo did not start:\n{log.read_text()[-2000:]}")
        time.sleep(0.2)
    return found[1]


def shoot(browser: Any, word: str, scheme: str) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{PORT}/admin/")
    page.fill("#id_username", "demo")
    page.fill("#id_password", word)
    page.click("button[type=submit]")
    page.wait_for_selector("#pulse")
    failed = f"{PAGES['occurrences']}?state__exact=failed"
    paths = {name: path for name, path in PAGES.items() if scheme == "light" or name == "overview"}
    for name, path in paths.items():
        page.goto(f"http://127.0.0.1:{PORT}{path}")
        page.screenshot(path=IMAGES / f"{name}{'-dark' if scheme == 'dark' else ''}.png")
    if scheme == "light":
        take_first(page, failed, "How it went", "occurrence")
        take_first(page, f"{PAGES['jobs']}?q=warehouse-etl", "Tasks by newest occurrences", "job")
    context.close()


def take_first(page: Any, path: str, heading: str, name: str) -> None:
    """Take a picture of the first row's page, from a heading on."""
    page.goto(f"http://127.0.0.1:{PORT}{path}")
    page.click("#result_list tbody th a >> nth=0")
    page.wait_for_selector(f"h2:text('{heading}')")
    page.evaluate(
        "text => [...document.querySelectorAll('h2')].find(h => h.innerText == text).scrollIntoView()",
        heading,
    )
    page.screenshot(path=IMAGES / f"{name}.png")


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("no chromium on this machine (apt install chromium)")
    IMAGES.mkdir(exist_ok=True)
    with demo() as word, importlib.import_module("playwright.sync_api").sync_playwright() as playwright:
        time.sleep(WORKING)
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        for scheme in ("light", "dark"):
            shoot(browser, word, scheme)
        browser.close()


if __name__ == "__main__":
    main()
