"""Drive forms as a browser does: read the fields of a rendered page, change some, post them."""

from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

from django.test import Client


class _Fields(HTMLParser):
    """The successful controls of every form that posts to `action`."""

    def __init__(self, action: str) -> None:
        super().__init__()
        self.action, self.inside = action, False
        self.found: dict[str, str] = {}
        self.open_name: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        facts = dict(attrs)
        if tag == "form":
            self.inside = facts.get("action") == self.action
        elif self.inside and tag == "input":
            self._input(facts)
        elif self.inside and tag in ("textarea", "select"):
            self.open_name = facts.get("name")
            self.found[self.open_name or ""] = ""
        elif self.inside and tag == "option" and "selected" in facts and self.open_name:
            self.found[self.open_name] = facts.get("value") or ""

    def _input(self, facts: Mapping[str, str | None]) -> None:
        is_box = facts.get("type") in ("checkbox", "radio")
        if facts.get("name") and (not is_box or "checked" in facts) and "disabled" not in facts:
            self.found[facts["name"] or ""] = facts.get("value") or ("on" if is_box else "")

    def handle_data(self, data: str) -> None:
        if self.inside and self.open_name and self.lasttag == "textarea":
            self.found[self.open_name] += data

    def handle_endtag(self, tag: str) -> None:
        if tag in ("textarea", "select"):
            self.open_name = None
        elif tag == "form":
            self.inside = False


def form_values(html: str, action: str) -> dict[str, str]:
    fields = _Fields(action)
    fields.feed(html)
    return {name: value.removeprefix("\n") for name, value in fields.found.items()}


class EditorSession:
    """One operator in the editor: open, type, preview, confirm."""

    def __init__(self, client: Client, path: str) -> None:
        self.client, self.action = client, path.partition("?")[0]
        self.page = self._read(client.get(path))

    def _read(self, response: Any) -> str:
        self.response = response
        return str(response.content.decode())

    @property
    def fields(self) -> dict[str, str]:
        return form_values(self.page, self.action)

    def post(self, button: str, **typed: str) -> str:
        data = self.fields | typed | {button: "1"}
        self.page = self._read(self.client.post(self.action, data, follow=True))
        return self.page

    def look(self, **typed: str) -> str:
        return self.post("_preview", **typed)

    def confirm(self) -> str:
        return self.post("_confirm")
