"""The page of an artifact: its card, the text that the model got, its payload, ways to read it, and its expiry.

The page shows a bounded part of the payload, and marks in it the excerpts of the card.
"""

import codecs
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from msgspec import UNSET, Meta, Struct, UnsetType

from coatcheck.api.artifacts import CardQuery, artifact_views
from coatcheck.api.content import get_content
from coatcheck.api.events import EventView, event_view
from coatcheck.api.http.access import ADMIN, DELETE, READ
from coatcheck.api.http.request_parts import from_pairs
from coatcheck.api.page.artifacts import actions_of
from coatcheck.api.page.call import Elsewhere, PageAnswer, PageCall, Shown, page
from coatcheck.api.parameters import Labels, check_labels, seconds
from coatcheck.core import ids
from coatcheck.core.artifact import Artifact
from coatcheck.core.card.model import Card
from coatcheck.core.errors import CoatcheckError
from coatcheck.core.policies.policy import PolicySource
from coatcheck.core.read_answer import MAX_TOKENS
from coatcheck.core.views.clip import ROW, hex_row
from coatcheck.core.views.window import Unit
from coatcheck.reading.view import ViewReading
from coatcheck.usecases.reading.grep import PatternSearchRequest
from coatcheck.usecases.reading.read import ReadRequest

PART: Final = 48 * 1024
"""Maximum bytes of text that the page shows at once."""
HEX_PART: Final = 256 * ROW
"""Maximum bytes that the page shows at once as a hexadecimal dump: 256 rows."""
_MAX_CHAR_BYTES: Final = 4
"""Bytes of the longest UTF-8 character."""


class PayloadPiece(Struct, frozen=True):
    """A piece of the text. `shown` says whether the card shows it."""

    text: str
    shown: bool
    anchor: int | None = None
    """Number of the excerpt that begins here, counted from 1; None: no excerpt begins here."""


class PayloadPart(Struct, frozen=True, kw_only=True):
    """The part of a view that the page shows, and its position."""

    pieces: list[PayloadPiece]
    start: int
    """Position of the first byte in the view."""
    end: int
    """Position after the last byte."""
    size: int
    """Bytes of the whole view."""
    hexadecimal: bool = False

    @property
    def before(self) -> int | None:
        """The position at which the previous part begins; None at the beginning of the view."""
        return None if self.start == 0 else max(0, self.start - (HEX_PART if self.hexadecimal else PART))


async def part_of(reading: ViewReading, card: Card, start: int) -> PayloadPart:
    """Returns the part of a view that begins at `start`, moved back to the start of a character or a row."""
    size = reading.content.size
    start = min(max(start, 0), max(size - 1, 0))
    if reading.binary:
        start -= start % ROW
        data = await reading.read(start, start + HEX_PART)
        return PayloadPart(
            pieces=[PayloadPiece(_dump(data, start), shown=False)],
            start=start,
            end=start + len(data),
            size=size,
            hexadecimal=True,
        )
    # A part consists of whole characters. Read a few bytes more on either side, then cut between characters.
    low = max(0, start - _MAX_CHAR_BYTES)
    data = await reading.read(low, start + PART + _MAX_CHAR_BYTES)
    first, last = _align(data, start - low), _align(data, start - low + PART)
    start, data = low + first, data[first:last]
    pieces: list[PayloadPiece] = []
    at = 0
    # Excerpts may overlap or lie partly outside. Reduce each to bytes of this part that are not marked yet.
    for number, excerpt in enumerate(sorted(card.excerpts, key=lambda each: each.bytes.start), 1):
        a, b = max(excerpt.bytes.start - start, at), min(excerpt.bytes.end - start, len(data))
        if excerpt.view != reading.view or a >= b:
            continue
        anchor = number if excerpt.bytes.start >= start else None
        pieces += [
            PayloadPiece(_text(reading, data[at:a]), shown=False),
            PayloadPiece(_text(reading, data[a:b]), True, anchor),
        ]
        at = b
    pieces.append(PayloadPiece(_text(reading, data[at:]), shown=False))
    visible_pieces = [piece for piece in pieces if piece.text]
    return PayloadPart(pieces=visible_pieces, start=start, end=start + len(data), size=size)


def _align(data: bytes, at: int) -> int:
    """Returns the start of the character that the byte at `at` belongs to, at most four bytes back in invalid UTF-8."""
    if at >= len(data):
        return len(data)
    back = at
    while back > max(0, at - _MAX_CHAR_BYTES) and data[back] & 0xC0 == 0x80:  # noqa: PLR2004 - a byte inside a character
        back -= 1
    return back


def _text(reading: ViewReading, data: bytes) -> str:
    text = codecs.decode(data, "utf-8", "replace")
    return text if reading.mask is None else reading.mask.reveal(text)


def _dump(data: bytes, start: int) -> str:
    return "".join(hex_row(data[at : at + ROW], start + at) for at in range(0, len(data), ROW))


EVENTS: Final = 50
"""Maximum reads that the page lists."""
WAYS: Final = ("outline", "search", "passages", "lines", "bytes", "json")
"""Ways of reading that the page offers: the values of `ReadingQuery.way`."""
_MAX_OFFSET: Final = 2**53
"""The highest offset that the page accepts: JavaScript represents no larger integer exactly."""
_ENDS: Final = ("ttl", "idle_ttl", "max_ttl", "evict")
"""Fields of policies that decide how long an artifact is kept."""


class ArtifactQuery(CardQuery, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of an artifact's page: those of the card, and the position in the payload."""

    at: Annotated[int, Meta(ge=0, le=_MAX_OFFSET)] = 0
    """Position in the view, in bytes, at which the part begins."""
    done: str | None = None


class ReadingQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of the page that reads an artifact: a way of reading, and its arguments."""

    way: Literal["outline", "search", "passages", "lines", "bytes", "json"] = "outline"
    what: Annotated[str, Meta(max_length=4000)] | None = None
    """The pattern, query or path, depending on `way`; None: the form was not filled in yet."""
    view: Literal["raw", "text"] | None = None
    section: str | None = None
    offset: Annotated[int, Meta(ge=0, le=_MAX_OFFSET)] | None = None
    cursor: Annotated[str, Meta(max_length=512)] | None = None


class KeepForm(Struct, kw_only=True, forbid_unknown_fields=True):
    """The form that changes how long an artifact is kept, and its labels."""

    ttl: str | None = None
    labels: str = ""
    """Labels separated by commas, which replace all present labels; if equal to these, they stay as they are."""


class LabelsForm(Struct, kw_only=True):
    """The labels of the form, one by one."""

    labels: Labels = ()


@page("GET /ui/artifacts/{artifact_id}", scope=READ)
async def show_artifact(call: PageCall, artifact_id: str) -> PageAnswer:
    """Shows the artifact's card and a part of its payload in which the card's excerpts are marked."""
    query = call.query(ArtifactQuery)
    is_chosen = query.tokens is not None or query.query is not None or query.tools == "none"
    described = await call.inspection.describe(
        call.who,
        ids.parse(artifact_id),
        budget=query.tokens,
        query=query.query,
        tools=query.tools != "none",
        as_received=not is_chosen,
    )
    card, record = described.card, described.receipt
    # If the text that the model got was kept and differs from the present card, show that text.
    card_text = None if is_chosen or record is None or described.is_unchanged else record.text
    reading = await call.inspection.open_view(
        call.who, ids.parse(artifact_id), view="raw" if card.text is None else "text"
    )
    part = await part_of(reading, card, query.at)
    values = {
        "artifact": (await artifact_views(call.services.holds, [described.artifact]))[0],
        "card": described.text if card_text is None else card_text,
        "card_tokens": described.tokens if card_text is None or record is None else record.tokens,
        "engine": card.engine,
        "receipt": record,
        "is_unchanged": described.is_unchanged,
        "is_kept": card_text is not None,
        "query": query,
        "part": part,
        "view": reading.view,
        "excerpts": sorted(card.excerpts, key=lambda each: each.bytes.start),
        "ends": _ends(call, described.artifact),
        "events": await _events(call, ids.parse(artifact_id)),
        "actions": actions_of(call),
        "ways": WAYS,
        "may_keep": call.may(DELETE),
    }
    return Shown("artifact.jinja", values)


@page("GET /ui/artifacts/{artifact_id}/read", scope=READ)
async def read_artifact(call: PageCall, artifact_id: str) -> PageAnswer:
    """Shows a reading of the artifact: its outline, matches, passages, lines, bytes, or values by path."""
    query = call.query(ReadingQuery)
    values: dict[str, Any] = {"id": ids.render(ids.parse(artifact_id)), "query": query, "ways": WAYS, "answer": None}
    try:
        values |= await _read(call, ids.parse(artifact_id), query)
    except CoatcheckError as error:
        return Shown("read.jinja", {**values, "problem": error, "next": {}})
    return Shown("read.jinja", {**values, "problem": None})


@page("GET /ui/artifacts/{artifact_id}/download", scope=READ)
async def download_artifact(call: PageCall, artifact_id: str) -> PageAnswer:
    """Sends the bytes as an attachment, as the API does."""
    # Call the API's own function with a view that records no read: an administrator's read is not a model's.
    services = replace(call.services, open_view=call.inspection.stored_view)
    request_id: str = call.scope["state"]["request_id"]
    await get_content.function(services, artifact_id, request_id, call.scope, call.receive, call.send)


@page("POST /ui/artifacts/{artifact_id}/keep", scope=DELETE)
async def keep_artifact(call: PageCall, artifact_id: str) -> PageAnswer:
    """Changes how long the artifact is kept, and its labels."""
    form = await call.form(KeepForm)
    number, ttl = ids.parse(artifact_id), UNSET if form.ttl is None else seconds(form.ttl, "ttl")
    present = (await call.inspection.stored_view(call.who, number, view="raw")).artifact
    labels: tuple[str, ...] | UnsetType = UNSET
    if form.labels != ", ".join(present.declared.labels):  # unchanged labels may contain commas themselves
        names = [("labels", name) for part in form.labels.split(",") if (name := part.strip())]
        labels = check_labels(from_pairs(names, LabelsForm).labels)
    if isinstance(ttl, int):
        # Ask for confirmation only if the artifact would expire sooner. It may even expire at once.
        end = present.created_at + timedelta(seconds=ttl)
        if not present.pinned and (present.expires_at is None or end < present.expires_at):
            question = call.confirm(
                f"Let {present.id} end sooner?",
                button="Change",
                back=f"/ui/artifacts/{present.id}",
                state=(present.expires_at, end),
                warning="It has ended by then, and is reported as gone at once." if end <= call.now else None,
                changes=[("ends", present.expires_at or "never", end)],
            )
            if question is not None:
                return question
    await call.services.extend(call.who, number, ttl=ttl, labels=labels)
    return Elsewhere(f"/ui/artifacts/{quote(artifact_id)}?done=kept")


def _ends(call: PageCall, a: Artifact) -> dict[str, PolicySource]:
    """Returns, by field, the policies that decide an artifact's expiry; empty if the caller may not see policies."""
    if not call.may(ADMIN):
        return {}
    sources = call.services.policies.rules.explain(
        a.namespace,
        session=a.declared.session,
        kind=a.facts.kind,
        tool_name=a.declared.tool_name,
        labels=a.declared.labels,
    )
    return {name: source for name, source in sources.items() if name in _ENDS}


async def _events(call: PageCall, number: int) -> list[EventView]:
    """Returns the latest reads of an artifact, newest first."""
    return [event_view(each) for each in (await call.services.events(call.who, artifact=number, limit=EVENTS)).events]


async def _read(call: PageCall, number: int, query: ReadingQuery) -> dict[str, Any]:
    """Returns the answer for the page's query, and the query parameters with which the reading continues."""
    look, who, what = call.inspection, call.who, query.what or ""
    section, view, offset, most = query.section, query.view, query.offset or 0, MAX_TOKENS
    # A way without an argument that it needs falls through to the last case: the page then shows only its form.
    match query.way:
        case "outline":
            outline = await look.outline(who, number, section=section, offset=offset, max_tokens=most)
            return {"answer": outline, "next": _next(offset=outline.next)}
        case "search" if what:
            ask = PatternSearchRequest(pattern=what, offset=offset, section=section, view=view, max_tokens=most)
            hits = await look.search(who, number, ask)
            return {"answer": hits, "next": _next(offset=None if hits.next is None else hits.next.offset)}
        case "passages" if what:
            passages = await look.windows(who, number, query=what, max_tokens=most, view=view, section=section)
            return {"answer": passages, "next": {}}
        case "lines" | "bytes":
            unit: Unit = "line" if query.way == "lines" else "byte"
            span = ReadRequest(unit=unit, offset=query.offset, section=section, view=view, max_tokens=most)
            on = ReadRequest(cursor=query.cursor, max_tokens=most)
            answer = await look.read_span(who, number, span if query.cursor is None else on)
            return {"answer": answer, "next": _next(cursor=None if answer.next is None else answer.next.cursor)}
        case "json":
            values = await look.read_json(who, number, path=what or "$", max_tokens=most, cursor=query.cursor)
            return {"answer": values, "next": _next(cursor=values.next)}
        case _:
            return {"answer": None, "next": {}}


def _next(**parameters: object) -> dict[str, object]:
    return {name: value for name, value in parameters.items() if value is not None}
