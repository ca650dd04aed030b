"""A manual is told by what it does not indent; nothing else is taken for one."""

import pytest

from coatcheck.core.artifact import DeclaredMetadata, Kind, PayloadSample
from coatcheck.core.extract import extract_text
from coatcheck.core.extract.headings import reads_as_document
from coatcheck.core.kinds import recognise
from coatcheck.core.kinds.spec import spec_of

PAGE = """COAT(1)                      General Commands Manual                      COAT(1)

NAME
       coat - keep coats

SYNOPSIS
   Short
       coat [OPTION]...

   With a ticket
       coat --ticket N

DESCRIPTION
       Keeps coats. A WORD IN CAPITALS
       and

       ANOTHER ONE

       are text.

EXIT STATUS
       0      All coats are there.
       1      Not all are.

SEE ALSO
       hat(1)

Coatcheck 1.0                     2026-01-01                            COAT(1)
"""
PAGE_HEADINGS = [
    *("1 NAME 3", "1 SYNOPSIS 6", "2 Short 7", "2 With a ticket 10"),
    *("1 DESCRIPTION 13", "1 EXIT STATUS 21", "1 SEE ALSO 25"),
]
HELP = """usage: coat [options] [ticket ...]

Keeps coats.

positional arguments:
  ticket                the ticket

Output options:
  -q, --quiet           say nothing

  -v, --verbose
      say more
Other options:
  --version             show the version

Report problems to the cloakroom.
"""
HELP_HEADINGS = ["1 positional arguments: 5", "1 Output options: 8", "1 Other options: 13"]
MEMO = """Cloakroom Working Group                                        A. Porter
Request for Comments: 99999                                 January 2026

                        The Coat Transfer Protocol

Abstract

   This memo transfers coats.

Table of Contents

   1.  Introduction
   2.  Coats

1.  Introduction

   A coat is a garment.  See:

   a table

     of coats

Porter                       Informational                      [Page 1]
\f
RFC 99999                 Coat Transfer Protocol            January 2026

2.  Coats

   There are coats.

2.1.  Of Wool

   Warm.

Appendix A.  History

   None.
"""
MEMO_HEADINGS = [
    *("1 Abstract 6", "1 Table of Contents 10", "1 1. Introduction 15", "1 2. Coats 27", "2 2.1. Of Wool 31"),
    "1 Appendix A. History 35",
]
MANUALS = {"page": (PAGE, PAGE_HEADINGS), "help": (HELP, HELP_HEADINGS), "memo": (MEMO, MEMO_HEADINGS)}
OTHERS = {
    "sql": "SELECT\n  a, b,\n  c\nFROM\n  t\nWHERE\n  a = 1\nORDER BY\n  b\nLIMIT\n  1;\n" * 3,
    "yaml": "services:\n  web:\n    image: a\n\nvolumes:\n  db:\n    driver: b\n\nnetworks:\n  front:\n    name: c\n",
    "python": "class A:\n    x = 1\n\n    def f(self):\n        pass\n\n\nclass B:\n    y = 2\n\n\ntry:\n    import c\n"
    "except ImportError:\n    c = None\n",
    "makefile": "BUILD:\n\tmake all\n\nTEST:\n\tmake test\n\nCLEAN:\n\trm -rf x\n",
    "steps": "First do it:\n  make\n\nThen see:\n  ls\n\nThen stop:\n  exit\n",
    "log": "ERROR\n  at a\n  at b\n\nERROR\n  at a\n  at c\n\nERROR\n  at d\n\nFATAL\n  at e\n",
    "changes": "coats (1.2) unstable; urgency=low\n\n  * Fix.\n\n -- A <a@b>  Mon\n\n"
    "coats (1.1) unstable; urgency=low\n\n  * New.\n",
    "prose": "It was.\n\n  A verse here,\n  a verse there.\n\nIt is.\n\n  More of it.\n\nIt will be.\n\n  The end.\n",
}


def headings(data: bytes, kind: Kind) -> list[str]:
    view = extract_text(spec_of(kind).text_view, None, None, data)
    return [] if view is None else [f"{s.level} {s.title} {s.line}" for s in view.sections]


@pytest.mark.parametrize("ending", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("kind", [Kind.COMMAND_OUTPUT, Kind.CODE_OR_FILE, Kind.TEXT])
@pytest.mark.parametrize("name", MANUALS)
def test_the_headings_of_a_manual_are_its_sections(name: str, kind: Kind, ending: str) -> None:
    text, expected = MANUALS[name]
    data = text.replace("\n", ending).encode()
    assert reads_as_document(None, None, data)
    assert headings(data, kind) == expected
    facts = recognise(PayloadSample(data, b"", len(data)), DeclaredMetadata(tool_name="bash", kind=kind))
    assert [line for line in facts.shape if line.startswith("Sections")] == [
        "Sections (with lines): " + "; ".join(each[2:] for each in expected)
    ]
    assert set(facts.sections) <= {each[2:].rpartition(" ")[0] for each in expected}
    assert facts.sections


def test_headings_may_be_bold() -> None:
    bold = PAGE
    for title in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "SEE ALSO"):
        bold = bold.replace(f"\n{title}\n", f"\n\x1b[1m{title}\x1b[0m\n")
    bold = bold.replace("\n   Short\n", "\n   \x1b[1mShort\x1b[0m\n")
    assert headings(bold.encode(), Kind.COMMAND_OUTPUT) == PAGE_HEADINGS


def test_a_long_page_needs_no_third_heading_near_its_beginning() -> None:
    long = PAGE.replace("       Keeps coats.", "       Keeps coats.\n" * 2_000).replace("SYNOPSIS\n", "SYNOPSES\n")
    assert reads_as_document(None, None, long.encode())
    assert headings(long.encode(), Kind.TEXT)[-1] == "1 SEE ALSO 2025"


@pytest.mark.parametrize("name", OTHERS)
def test_what_indents_otherwise_is_no_manual(name: str) -> None:
    assert not reads_as_document(None, None, OTHERS[name].encode())


@pytest.mark.parametrize("data", [b"", b"\n", b"NAME", b"NAME\n  a\n\nB\n", b"\n  \n" * 9, b"A\n  b\nA\n  b\nA\n  b\n"])
def test_nothing_is_too_odd_for_a_manual(data: bytes) -> None:
    assert not reads_as_document(None, None, data)
