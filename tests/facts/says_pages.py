"""What `html.parser` says of a page, and `json` of a search response."""

import re
from collections.abc import Sequence
from html.parser import HTMLParser

from typing_extensions import override


class Head(HTMLParser):
    """The title of a page, its canonical URL, its named values, its headings."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.title: str | None = None
        self.canonical: str | None = None
        self.named: dict[str, str] = {}
        self.headings: list[str] = []
        self._open = ""
        self.feed(page)

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "link" and values.get("rel") == "canonical" and self.canonical is None:
            self.canonical = values.get("href")
        if tag == "meta":
            self.named.setdefault(values.get("property") or values.get("name") or "", values.get("content", ""))
        self._open = tag
        if tag == "title" and self.title is None:
            self.title = ""
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append("")

    @override
    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    @override
    def handle_data(self, data: str) -> None:
        if self._open == "title" and self.title is not None:
            self.title += data
        if re.fullmatch(r"h[1-6]", self._open):
            self.headings[-1] += data


def folded(text: str) -> str:
    """A text with its blanks as one."""
    return " ".join(text.split())


class PageOracle:
    """Understands what a page says of itself."""

    def __init__(self, head: Head) -> None:
        self._head = head

    def __call__(self, line: str) -> bool:
        label, _, value = line.partition(": ")
        named = self._head.named
        if label == "Published":
            published = named.get("article:published_time") or named.get("date") or ""
            assert value
            assert published.startswith(value), line
            return True
        if label == "Description":
            assert folded(named.get("description") or named["og:description"]).startswith(value), line
            return True
        if found := re.fullmatch(r"(?:Largest s|S)ections from line \d+( \(with lines\))?", label):
            known = {folded(heading) for heading in self._head.headings}
            told = [item.rpartition(" ")[0] if found[1] else item for item in value.split("; ")]
            for title in told:
                assert title in known or any(
                    title.endswith("…") and heading.startswith(title[:-1]) for heading in known
                ), line
            return True
        return False


class ResultsOracle:
    """Understands a list of search results: rank, title, URL and pieces of the text."""

    def __init__(self, results: Sequence[tuple[str, str, str]]) -> None:
        """`results`: title, URL and text of each, in order."""
        self._results = [(folded(title), url, folded(text)) for title, url, text in results]

    def __call__(self, line: str) -> bool:
        if found := re.fullmatch(r"(\d+) results?:", line):
            assert int(found[1]) == len(self._results)
            return True
        found = re.match(r"r(\d+)( goes on: …|: | )", line)
        if found is None:
            return False
        title, url, text = self._results[int(found[1]) - 1]
        told = line[found.end() :]
        if found[2] == " ":
            name, _, address = told.rpartition(" | ")
            assert address == url, line
            assert name == title or (name.endswith("…") and title.startswith(name[:-1])), line
        else:
            assert told.removesuffix("…") in text, line
            assert found[2] != ": " or text.startswith(told.removesuffix("…"))
        return True
