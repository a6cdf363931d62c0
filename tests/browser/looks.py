"""Take pictures of every page over every ledger: `python -m tests.browser.looks FOLDER [LEDGER …]`.

Four pictures a page, light and dark, wide and narrow, and a sheet for each scheme with both widths beside
each other. Nothing is asserted here; an engineer looks at them.
"""

import importlib
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import django
import psycopg
from django.core.management import call_command

from tests.guardian import Guardian
from tests.servers import make_folder, start_postgres, start_valkey

LEDGERS = ("empty", "one", "small", "broken", "odd")
SHOWN = {1440: 900, 390: 350}  # width of the window: width on a sheet
SCHEMES, TALLEST = ("light", "dark"), 1500
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
PASSWORD = secrets.token_urlsafe(16)


@contextmanager
def site() -> Iterator[str]:
    """A console over a database of its own, at the address it yields."""
    guardian, folder = Guardian(), make_folder("punctual-looks-")
    guardian.remove(folder)
    postgres, valkey = start_postgres(folder, guardian), start_valkey(folder, guardian)
    with psycopg.connect(postgres.url.replace("/punctual", "/postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE punctual")
    os.environ |= {"DATABASE_URL": postgres.url, "BROKER_URL": valkey.url, "PUNCTUAL_VAR": str(folder),
                   "DEBUG": "on", "HTTPS": "off", "SECRET_KEY": secrets.token_urlsafe(64),
                   "ALLOWED_HOSTS": "127.0.0.1", "LOG_LEVEL": "ERROR",
                   "DJANGO_SETTINGS_MODULE": "scheduler_project.settings"}  # fmt: skip
    django.setup()
    call_command("migrate", verbosity=0)
    wsgi = importlib.import_module("scheduler_project.wsgi").application
    server = make_server("127.0.0.1", 0, wsgi, handler_class=Silent)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        guardian.close()


class Silent(WSGIRequestHandler):
    def log_message(self, *_args: object) -> None:
        """Discard the log."""


def refill(ledger: str) -> dict[str, str]:
    """Empty every table, fill it again, and return the paths of the new rows."""
    models = importlib.import_module("django.contrib.auth.models")
    call_command("flush", interactive=False, verbosity=0)
    models.User.objects.create_superuser("operator", password=PASSWORD)
    importlib.import_module("tests.console.ledgers").fill(ledger, now())
    paths = importlib.import_module("tests.console.paths")
    return {**paths.lists(), **paths.pages(), **paths.change_pages()}


def now() -> Any:
    return importlib.import_module("punctual.jobs.clock").database_now()


def shoot(browser: Any, address: str, paths: dict[str, str], folder: Path) -> None:
    for scheme in SCHEMES:
        for width in SHOWN:
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page = context.new_page()
            page.goto(f"{address}/admin/")
            page.fill("#id_username", "operator")
            page.fill("#id_password", PASSWORD)
            page.click("button[type=submit]")
            page.wait_for_selector("#pulse")
            for name, path in paths.items():
                page.goto(f"{address}{path}")
                page.screenshot(path=folder / f"{slug(name)}.{scheme}.{width}.png", full_page=True)
            context.close()


def sheet(browser: Any, name: str, scheme: str, folder: Path) -> None:
    """Put the wide and the narrow picture side by side, scaled down; long ones are cut."""
    page = browser.new_page(viewport={"width": 1260, "height": 1000})
    images = [
        f'<img src="{slug(name)}.{scheme}.{width}.png" width="{shown}">' for width, shown in SHOWN.items()
    ]
    source = folder / "sheet.html"
    source.write_text(
        f'<body style="margin:0;display:flex;align-items:start;gap:8px">{"".join(images)}</body>'
    )
    page.goto(source.as_uri())
    height = min(TALLEST, page.evaluate("document.body.scrollHeight"))
    clip = {"x": 0, "y": 0, "width": 1260, "height": height}
    page.screenshot(path=folder / f"sheet.{slug(name)}.{scheme}.png", clip=clip, full_page=True)
    page.close()
    source.unlink()


def slug(name: str) -> str:
    return name.replace(" ", "-").replace(",", "")


def main(folder: Path, ledgers: list[str]) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("no chromium on this machine (apt install chromium)")
    with site() as address:
        filled: Any = refill
        for ledger in ledgers:
            paths, place = filled(ledger), folder / ledger
            place.mkdir(parents=True, exist_ok=True)
            with importlib.import_module("playwright.sync_api").sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
                shoot(browser, address, paths, place)
                for name in paths:
                    for scheme in SCHEMES:
                        sheet(browser, name, scheme, place)
                browser.close()
            sys.stdout.write(f"{ledger}: {len(paths)} pages\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] or list(LEDGERS))
