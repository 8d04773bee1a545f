"""Whether the site that `make docs` wrote is whole, and needs no network.

python docs/make/check_site.py build/site
"""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

_FETCHED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src")}
_LINKED = {"stylesheet", "icon", "preload", "preconnect", "modulepreload"}


class _Fetched(HTMLParser):
    """What a browser fetches when it shows a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "link" and _LINKED & set((given.get("rel") or "").split()):
            self.found.append(given.get("href") or "")
        self.found += [given.get(name) or "" for kind, name in _FETCHED if kind == tag and name in given]


def problems(site: Path) -> list[str]:
    """What is wrong with a site, a line each."""
    found = []
    pages = sorted(site.rglob("*.html"))
    for page in pages:
        parser = _Fetched()
        parser.feed(page.read_text())
        for address in parser.found:
            if re.match(r"(https?:)?//", address):
                found.append(f"{page.relative_to(site)} fetches {address}")
            elif not (page.parent / address.partition("?")[0].partition("#")[0]).exists() and page.name != "404.html":
                found.append(f"{page.relative_to(site)} fetches {address}, which is not there")
    for style in sorted(site.rglob("*.css")):
        addresses = re.findall(r"url\([\"']?(https?://[^)\"']+)", style.read_text())
        found += [f"{style.relative_to(site)} fetches {address}" for address in addresses]
    index = site / "search" / "search_index.json"
    if not index.exists():
        return [*found, "there is no search index"]
    known = {entry["location"].partition("#")[0] for entry in json.loads(index.read_text())["docs"]}
    found += [f"{p.relative_to(site)} cannot be searched" for p in pages if _name(site, p) not in known and p.name != "404.html"]
    return found


def _name(site: Path, page: Path) -> str:
    return str(page.relative_to(site))


if __name__ == "__main__":
    wrong = problems(Path(sys.argv[1]))
    print("\n".join(wrong) or "the site is whole, and needs no network")
    sys.exit(bool(wrong))
