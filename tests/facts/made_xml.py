"""XML as tools write it: reports of tests and coverage, bills of materials, poms, feeds, property lists, manifests."""

import random
from collections.abc import Iterator
from typing import Final
from xml.etree import ElementTree as ET

from coatcheck.core.artifact import DeclaredMetadata
from facts.cases import Case
from facts.says_xml import XmlOracle

_WORDS: Final = ("desk", "a-b.c", "007", "größe", "x < y & z", 'say "x"', "two\nlines", "w" * 70, "1.0")
_STATES: Final = ("open", "paid", "paid", "paid", "cancelled")


def _word(rng: random.Random) -> str:
    return rng.choice(_WORDS)


def _add(above: ET.Element, tag: str, text: str | None = None, **attributes: str) -> ET.Element:
    element = ET.SubElement(above, tag, attributes)
    element.text = text
    return element


def _tests(rng: random.Random) -> ET.Element:
    root = ET.Element("testsuites", {"name": "all", "tests": "9"})
    for suite in range(rng.randint(1, 3)):
        suite_element = _add(root, "testsuite", name=f"suite {suite}", hostname=_word(rng))
        for number in range(rng.randint(1, 90)):
            test = _add(suite_element, "testcase", name=f"test_{number}", classname=_word(rng), time="0.1")
            if rng.random() < 0.03:
                _add(test, "failure", "it\nfailed <here>", message=_word(rng))
    return root


def _materials(rng: random.Random) -> ET.Element:
    root = ET.Element("bom", {"version": "1", "serialNumber": f"urn:{rng.random()}"})
    metadata = _add(root, "metadata")
    _add(metadata, "timestamp", "2026-01-02T03:04:05Z")
    _add(_add(metadata, "component", type="application"), "name", _word(rng))
    components = _add(root, "components")
    for number in range(rng.randint(1, 120)):
        component = _add(components, "component", type=rng.choice(["library"] * 9 + ["framework"]))
        _add(component, "name", f"part-{number}")
        _add(component, "version", _word(rng))
        if rng.random() < 0.9:
            _add(_add(_add(component, "licenses"), "license"), "id", rng.choice(["MIT", "Apache-2.0"]))
    return root


def _pom(rng: random.Random) -> ET.Element:
    root = ET.Element("project")
    for tag in ("modelVersion", "groupId", "artifactId", "version", "description"):
        _add(root, tag, _word(rng))
    dependencies = _add(root, "dependencies")
    for number in range(rng.randint(0, 30)):
        dependency = _add(dependencies, "dependency")
        _add(dependency, "groupId", "org.x")
        _add(dependency, "artifactId", f"part-{number}")
        if rng.random() < 0.3:
            _add(dependency, "scope", "test")
    return root


def _feed(rng: random.Random) -> ET.Element:
    root = ET.Element("rss", {"version": "2.0"})
    channel = _add(root, "channel")
    _add(channel, "title", _word(rng))
    for number in range(rng.randint(0, 40)):
        item = _add(channel, "item")
        _add(item, "title", f"News {number}")
        _add(item, "category", rng.choice(_STATES))
    return root


def _list(rng: random.Random) -> ET.Element:
    root = ET.Element("plist", {"version": "1.0"})
    values = _add(root, "dict")
    for number in range(rng.randint(1, 30)):
        _add(values, "key", f"Key{number}")
        _add(values, rng.choice(["string", "true", "array"]), _word(rng))
    return root


_FORMS: Final = (_tests, _materials, _pom, _feed, _list)


def elements(rng: random.Random, count: int) -> Iterator[Case]:
    """Documents of several forms, indented, with and without a declaration, comments, and an end of line."""
    for number in range(count):
        root = _FORMS[number % len(_FORMS)](rng)
        ET.indent(root)
        declared = rng.random() < 0.8 or len(list(root.iter())) < 3
        text = ET.tostring(root, encoding="unicode", short_empty_elements=rng.random() < 0.5)
        text = ('<?xml version="1.0"?>\n' if declared else "") + text
        text = text.replace("\n  <", "\n  <!-- <a> -->\n  <", rng.randrange(2)) + rng.choice(["", "\n"])
        said = DeclaredMetadata(tool_name=rng.choice((None, "bash", "read_file")))
        yield Case(text.encode(), (XmlOracle(root),), said)
