"""Calendars, cards, keys and feeds, made with how many parts each has."""

import random
from collections.abc import Iterator
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from coatcheck.core.artifact import DeclaredMetadata
from facts.cases import Case
from facts.says_output import TallyOracle


def calendars(rng: random.Random, count: int) -> Iterator[Case]:
    """What consists of blocks with a beginning and an end, which text in it only seems to have."""
    for number in range(count):
        if number % 3:
            yield _calendar(rng, rng.randint(1, 30))
        else:
            sorts = rng.choices(["CERTIFICATE", "RSA PRIVATE KEY"], k=rng.randint(1, 9))
            text = "".join(f"-----BEGIN {sort}-----\nMIIB{'a' * 60}\n-----END {sort}-----\n" for sort in sorts)
            yield Case(text.encode(), (TallyOracle("Blocks", sorts),))


def large_calendar(rng: random.Random) -> Case:
    """One of about 700 KB."""
    return _calendar(rng, 5_000)


def _calendar(rng: random.Random, events: int) -> Case:
    end = rng.choice(["\n", "\r\n"])
    lines, sorts = ["BEGIN:VCALENDAR", "VERSION:2.0"], ["VCALENDAR"]
    for n in range(events):
        lines += ["BEGIN:VEVENT", f"UID:{n}@e.example", "DESCRIPTION:BEGIN:VEVENT is no event", " BEGIN:VALARM neither"]
        sorts.append("VEVENT")
        if rng.random() < 0.3:
            lines += ["BEGIN:VALARM", "TRIGGER:-PT9M", "END:VALARM"]
            sorts.append("VALARM")
        lines.append("END:VEVENT")
    lines.append("END:VCALENDAR")
    said = DeclaredMetadata(media_type=rng.choice([None, "text/calendar"]))
    return Case((end.join(lines) + end).encode(), (TallyOracle("Blocks", sorts),), said)


def feed(rng: random.Random, entries: int) -> tuple[str, list[str]]:
    """A feed, and the names of its outermost elements that recur, each as often as they occur."""
    space = rng.choice(["", "\n", "\n  "])
    name, other = rng.choice([("entry", "link"), ("item", "items"), ("testcase", "property"), ("a:x", "a:xy")])
    body = [f"<id>{rng.random()}</id>" for _ in range(rng.randint(0, 2))]
    for n in range(entries):
        inner = rng.choice(
            [
                f"<{other}>{n}</{other}>",
                f"<!-- <{name}> is no element --><{other}/>",
                f"<![CDATA[<{name}><b>not</{name}>]]>",
                escape(f"<{name}>"),
                f"<?php echo '<{name}>' ?>",
            ]
        )
        body.append(f"<{name} n='{n}'>{inner}</{name}>" if rng.random() < 0.9 else f"<{name}/>")
    text = f"<?xml version='1.0'?>{space}<feed xmlns:a='urn:a'>{space}{space.join(body)}{space}</feed>\n"
    found = [element.tag.replace("{urn:a}", "a:") for element in ET.fromstring(text).iter()]  # noqa: S314 - made above
    return text, [each for each in found if each == name]
