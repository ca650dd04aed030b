"""What `xml.etree` says of the elements of a document: how many there are at which path, and with which values."""

import json
import re
from collections import Counter
from xml.etree import ElementTree as ET

_PAIR = re.compile(r'(?P<path>[^\s="]+)=(?P<value>"(?:[^"\\]|\\.)*")')
_COUNT = re.compile(
    r'(?P<path>[^\s,"()]+) (?P<count>\d+)(?: \(in (?P<inside>"(?:[^"\\]|\\.)*"(?:, "(?:[^"\\]|\\.)*")*)\))?'
)


class XmlOracle:
    """Understands the root with short values, elements by path, and values that recur."""

    def __init__(self, root: ET.Element) -> None:
        self._root = root
        self._counts = Counter[str]()
        self._values: dict[str, list[str]] = {}
        self._inside: dict[str, list[str]] = {}
        self._walk(root, "", None)

    def _walk(self, element: ET.Element, path: str, above: ET.Element | None) -> None:
        self._counts[path] += 1
        for name, value in element.attrib.items():
            self._values.setdefault(f"{path}/@{name}".removeprefix("/"), []).append(_folded(value))
        if not len(element):
            self._values.setdefault(path, []).append(_folded(element.text or ""))
        if above is not None:
            self._inside.setdefault(path, []).append(_folded(above.get("name") or above.get("id") or ""))
        for child in element:
            self._walk(child, f"{path}/{child.tag}".removeprefix("/"), element)

    def __call__(self, line: str) -> bool:
        if line.startswith("XML, root "):
            root, _, values = line.removeprefix("XML, root ").partition(": ")
            assert root == self._root.tag
            for item in _PAIR.finditer(values):
                assert self._values[item["path"]] == [json.loads(item["value"])], item[0]
            assert not _PAIR.sub("", values).strip(", "), values
            return True
        if line.startswith("Elements: "):
            for item in _COUNT.finditer(line.removeprefix("Elements: ")):
                assert self._counts[item["path"]] == int(item["count"]), item[0]
                inside = json.loads(f"[{item['inside'] or ''}]")
                assert not inside or inside == self._inside[item["path"]], item[0]
            left = _COUNT.sub("", line.removeprefix("Elements: "))
            assert not re.sub(r"… \d+ more$", "", left).strip(", "), left
            return True
        if found := re.match(r"Counts of (\S+): ", line):
            told = dict(re.findall(r'("(?:[^"\\]|\\.)*") (\d+)', line[found.end() :]))
            counts = Counter(value for value in self._values[found[1]] if value)
            assert {json.loads(value): int(count) for value, count in told.items()} == counts
            return True
        return False


def _folded(text: str) -> str:
    return " ".join(text.split())
