"""HTML, parsed: what a reader would see."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = {"br", "hr", "img", "input", "meta"}


@dataclass
class Table:
    heads: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    values: list[list[str | None]] = field(default_factory=list)  # what cells are ordered by


class Page(HTMLParser):
    """Tables, texts and tags of some HTML; fails where tags do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tables: list[Table] = []
        self.texts: list[str] = []  # of <pre>
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.words = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == [], self._open

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attributes
        if tag not in _VOID:
            self._open.append(tag)
        if tag == "table":
            self.tables.append(Table())
        elif tag == "tr" and "tbody" in self._open:
            self.tables[-1].rows.append([])
            self.tables[-1].values.append([])
        elif tag == "th":
            self.tables[-1].heads.append("")
        elif tag == "td":
            self.tables[-1].rows[-1].append("")
            self.tables[-1].values[-1].append(dict(attributes).get("data-value"))
        elif tag == "pre":
            self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data
        inside = self._open[-1] if self._open else ""
        if inside == "th":
            self.tables[-1].heads[-1] += data
        elif inside == "td":
            self.tables[-1].rows[-1][-1] += data
        elif inside == "pre":
            self.texts[-1] += data
