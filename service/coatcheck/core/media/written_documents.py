"""Recognises documents that are written as text: mail, mailboxes, saved pages, rich text.

A mail is told by its headers: nothing else at the beginning, and those that mail has. Reads a bounded prefix.
"""

import re
from typing import Final

from coatcheck.core.media.documents import MAIL, MAILBOX, RICH_TEXT, SAVED_PAGE
from coatcheck.core.media.formats import BinaryFormat

_HEAD: Final = 16 * 1024
_MAYBE: Final = re.compile(rb"(?:\xef\xbb\xbf)?[\r\n]{0,8}(?:\{\\rtf|From [^\s:]|[A-Za-z][!-9;-~]{0,75}:)")
_ENVELOPE: Final = re.compile(rb"(?!From [0-9a-f]{40} )From \S[^\r\n]{0,120}\d{4}[^\r\n]{0,40}\r?\n")
"""Matches the first line of a mailbox; a patch of Git has a similar one."""
_LINE: Final = re.compile(rb"(?:([!-9;-~]{1,76}):[^\n]*|[ \t][^\n]*)(?:\n|\Z)")
_TRANSPORT: Final = frozenset(
    {b"Message-ID", b"Message-Id", b"Received", b"Return-Path", b"MIME-Version", b"Delivered-To"}
)
_USUAL: Final = _TRANSPORT | {b"From", b"To", b"Cc", b"Date", b"Subject", b"Reply-To", b"Newsgroups", b"Mime-Version"}
_ENOUGH: Final = 3
"""Headers of mail that a text must have, unless it is declared as mail."""
_SAVED: Final = re.compile(rb"^(?:Snapshot-Content-Location:|From: .{0,3}Saved by )", re.MULTILINE)
_DECLARED: Final = frozenset({MAIL, SAVED_PAGE, MAILBOX, "application/x-mimearchive", "message/global"})
_NAMES: Final = {MAIL: "mail", MAILBOX: "mailbox", SAVED_PAGE: "saved page", RICH_TEXT: "rich text"}


def identify_written(head: bytes, media_type: str | None) -> BinaryFormat | None:
    """Returns the format of a document that begins with `head`; None for any other text.

    `media_type` is the declared one: what is declared as mail needs headers, but not those that all mail has.
    """
    if not _MAYBE.match(head):
        return None
    head = head[:_HEAD].removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
    if head.startswith(b"{\\rtf"):
        return BinaryFormat(RICH_TEXT, _NAMES[RICH_TEXT])
    envelope = _ENVELOPE.match(head)
    names, end = _field_names(head, 0 if envelope is None else envelope.end())
    declared = (media_type or "").partition(";")[0].strip().lower() in _DECLARED
    usual = names & _USUAL
    is_mail = len(usual) >= _ENOUGH and (b"From" in usual or len(usual & _TRANSPORT) > 1)
    if not names or not (declared or is_mail):
        return None
    form = MAILBOX if envelope is not None else SAVED_PAGE if _SAVED.search(head, 0, end) else MAIL
    return BinaryFormat(form, _NAMES[form])


def _field_names(head: bytes, start: int) -> tuple[set[bytes], int]:
    """Returns the names of headers and where they end; none if something else stands among them."""
    names: set[bytes] = set()
    at = start
    while at < len(head) and (line := _LINE.match(head, at)) is not None:
        names |= {line[1]} if line[1] else set()
        at = line.end()
    rest = head[at : at + 2]
    return (names, at) if not rest or rest[:1] == b"\n" or rest == b"\r\n" else (set(), 0)
