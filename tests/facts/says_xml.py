"""What `xml.etree` says of the elements of a document: how many have each name."""

import re
from collections import Counter
from xml.etree import ElementTree as ET


class XmlOracle:
    """Understands how many elements there are of each name that recurs."""

    def __init__(self, root: ET.Element) -> None:
        self._counts = Counter(str(element.tag) for element in root.iter())

    def __call__(self, line: str) -> bool:
        if not line.startswith("Elements: "):
            return False
        told = dict(re.findall(r"([^\s,]+) (\d+)", line))
        assert told
        assert {name: int(count) for name, count in told.items()} == {name: self._counts[name] for name in told}
        return True
