import asyncio
import base64
import hashlib
import random
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from typing import Any

import pytest

from coatcheck.api.content import send_content
from coatcheck.api.http.representation import (
    ContentResponse,
    boundary_of,
    content_disposition,
    file_name,
    payload,
    request_fields,
    respond,
)
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.views.window import HttpByteRange
from coatcheck.ports.catalog import FoundArtifact
from reading.reading_harness import CREATED, ReadingHarness

R = random.Random(9110)
NOW = datetime(2026, 11, 22, tzinfo=UTC)
LAST_MODIFIED = "Sat, 21 Nov 2026 08:49:37 GMT"
DATA = R.randbytes(300_000)
ETAG = f'"{hashlib.sha256(DATA).hexdigest()}"'


async def ask(
    shelf: ReadingHarness, number: int, method: str = "GET", **fields: str | list[str]
) -> tuple[ContentResponse, bytes]:
    """Answer a request; its headers by keyword, underscores for hyphens."""
    headers = [
        (name.replace("_", "-").encode(), line.encode("latin-1"))
        for name, value in fields.items()
        for line in ([value] if isinstance(value, str) else value)
    ]
    response = respond(payload(shelf.artifact(number), shelf.content(number)), method, request_fields(headers))
    body = b"" if response.body is None else b"".join([block async for block in response.body])
    return response, body


def named(response: ContentResponse) -> dict[str, str]:
    fields = dict(response.headers)
    assert len(fields) == len(response.headers)
    return fields


def parts(response: ContentResponse, body: bytes) -> list[tuple[str, bytes]]:
    """Content-Range and bytes of each part, by the grammar of RFC 2046."""
    kind = named(response)["Content-Type"]
    assert kind.startswith("multipart/byteranges; boundary=")
    dash = b"--" + kind.removeprefix("multipart/byteranges; boundary=").encode()
    assert body.startswith(dash + b"\r\n")
    assert body.endswith(b"\r\n" + dash + b"--\r\n")
    out: list[tuple[str, bytes]] = []
    for piece in body.removesuffix(b"\r\n" + dash + b"--\r\n").removeprefix(dash).split(b"\r\n" + dash):
        head, data = piece.removeprefix(b"\r\n").split(b"\r\n\r\n", 1)
        lines = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        assert lines["Content-Type"] == "application/octet-stream"
        out.append((lines["Content-Range"], data))
    return out


def _spec(size: int) -> tuple[str, tuple[int, int] | None, bool]:
    """A generated range: its spelling, what it means, and whether it is valid."""
    a, b = R.randrange(size + size // 3 + 2), R.randrange(size + size // 3 + 2)
    zeros = "0" * R.choice([0, 0, 0, 1, 5_000])
    form = R.randrange(12)
    if form < 6:
        a, b = min(a, b), max(a, b)
        return f"{zeros}{a}-{zeros}{b}", (a, min(b + 1, size)) if a < size else None, True
    if form < 8:
        return f"{a}-", (a, size) if a < size else None, True
    if form < 10:
        return f"-{zeros}{a}", (max(0, size - a), size) if a and size else None, True
    if form == 10:
        return f"{a}-" + "9" * R.choice([19, 40, 5_000]), (a, size) if a < size else None, True
    return R.choice(["-", "a-b", "1-2-3", "--5", "5-4", "0x1-2", "1 -2", "+1-2", "٣-٤", "1-٤"]), None, False


def _merge(ranges: list[tuple[int, int]]) -> set[int]:
    return {n for a, b in ranges for n in range(a, b)}


async def test_ten_thousand_generated_ranges_equal_slices(shelf: ReadingHarness) -> None:
    kept = {size: await shelf.put(DATA[:size]) for size in (0, 1, 2, 7, 200)}
    seen: dict[int, int] = {}
    for _ in range(10_000):
        size = R.choice(list(kept))
        specs = [_spec(size) for _ in range(R.choice([1, 1, 1, 2, 3, 6]))]
        gap = R.choice([",", ", ", " ,\t", ",,", ", ,"])
        field = R.choice(["bytes=", "Bytes=", "BYTES="]) + gap.join(s for s, _, _ in specs)
        response, body = await ask(shelf, kept[size], range=field.encode().decode("latin-1"))
        seen[response.status] = seen.get(response.status, 0) + 1
        wanted = [m for _, m, _ in specs if m]
        expected = DATA[:size]
        assert int(named(response).get("Content-Length", len(body))) == len(body)
        if not all(valid for _, _, valid in specs) or len(field) > 16 * 1024:
            assert (response.status, body) == (200, expected)
        elif not wanted and not (size == 0 and any(s.startswith("-") and s.strip("-0") for s, _, _ in specs)):
            assert (response.status, body) == (416, b"")
            assert named(response)["Content-Range"] == f"bytes */{size}"
        elif not wanted:
            assert (response.status, body) == (200, b"")
        else:
            assert response.status == 206
            one = named(response).get("Content-Range")
            got = [(one, body)] if one else parts(response, body)
            places: list[tuple[int, int]] = []
            for where, data in got:
                assert where is not None
                first, last = where.removeprefix("bytes ").removesuffix(f"/{size}").split("-")
                places.append((int(first), int(last) + 1))
                assert data == expected[int(first) : int(last) + 1]
            assert _merge(places) == _merge(wanted)
            assert sum(b - a for a, b in places) == len(_merge(wanted))
    assert set(seen) == {200, 206, 416}
    assert min(seen.values()) > 500


@pytest.mark.parametrize(
    "field",
    [
        "bytes",
        "bytes=",
        "=0-1",
        "items=0-1",
        "bytes=0-1;",
        "bytes:0-1",
        "bytes =0-1",
        "bytes=,",
        "",
        "bytes=0-1\x00",
        "b\xff=0-1",
    ],
)
async def test_malformed_fields_and_unknown_units_are_ignored(shelf: ReadingHarness, field: str) -> None:
    response, body = await ask(shelf, await shelf.put(b"0123456789"), range=field)
    assert (response.status, body) == (200, b"0123456789")


async def test_hostile_sets_are_bounded(shelf: ReadingHarness) -> None:
    number = await shelf.put(DATA)
    response, body = await ask(shelf, number, range="bytes=" + ",".join(["0-"] * 64))
    assert (response.status, named(response)["Content-Range"]) == (206, f"bytes 0-{len(DATA) - 1}/{len(DATA)}")
    assert body == DATA
    for field in ("bytes=" + ",".join(f"{n}-{n}" for n in range(0, 130, 2)), "bytes=" + "9" * 100_000 + "-"):
        response, body = await ask(shelf, number, range=field)
        assert (response.status, body) == (200, DATA)
    response, body = await ask(shelf, number, range=["bytes=0-1", "bytes=2-3"])
    assert (response.status, len(body)) == (200, len(DATA))


async def test_parts_keep_the_order_asked_and_repeat_byte_for_byte(shelf: ReadingHarness) -> None:
    number = await shelf.put(DATA)
    first, body = await ask(shelf, number, range="bytes=200000-299999, 5-9, -3, 0-4")
    again, same = await ask(shelf, number, range="bytes=200000-299999, 5-9, -3, 0-4")
    assert (first.headers, body) == (again.headers, same)
    assert parts(first, body) == [
        ("bytes 200000-299999/300000", DATA[200_000:]),
        ("bytes 0-9/300000", DATA[:10]),
    ]
    assert "Content-Range" not in named(first)
    boundary = boundary_of(hashlib.sha256(DATA).digest(), [HttpByteRange(200_000, 300_000), HttpByteRange(0, 10)])
    assert boundary in named(first)["Content-Type"]


async def test_a_whole_answer_has_validators_digest_and_nothing_active(shelf: ReadingHarness) -> None:
    number = await shelf.put(DATA, media_type="text/html; charset=utf-8", title='Zażółć "gęślą"/../jaźń\r\nX: y')
    response, body = await ask(shelf, number)
    digest = named(response).pop("Repr-Digest")
    assert digest == f"sha-256=:{base64.b64encode(hashlib.sha256(DATA).digest()).decode()}:"
    assert body == DATA
    assert named(response) == {
        "ETag": ETAG,
        "Cache-Control": "private, no-cache",
        "Accept-Ranges": "bytes",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Content-Disposition": 'attachment; filename="Za____ _g__l___.._ja__ X_ y"; '
        "filename*=UTF-8''Za%C5%BC%C3%B3%C5%82%C4%87%20_g%C4%99%C5%9Bl%C4%85__.._ja%C5%BA%C5%84%20X_%20y",
        "Last-Modified": LAST_MODIFIED,
        "Repr-Digest": digest,
        "Content-Type": "text/html; charset=utf-8",
        "Content-Length": "300000",
    }
    head, empty = await ask(shelf, number, "HEAD", range="bytes=0-1")
    assert (head.status, head.headers, head.body, empty) == (200, response.headers, None, b"")


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "text",
        "text/",
        "text/plain\r\nX: y",
        "text/plain; a",
        "täxt/plain",
        "multipart/byteranges; boundary=x",
        "a/" + "b" * 300,
    ],
)
async def test_a_media_type_that_is_none_is_served_as_unknown_bytes(shelf: ReadingHarness, kind: str) -> None:
    response, _ = await ask(shelf, await shelf.put(b"x", media_type=kind))
    assert named(response)["Content-Type"] == "application/octet-stream"


OLD, NEW = "Sat, 21 Nov 2026 08:49:36 GMT", "Sat, 21 Nov 2026 08:49:38 GMT"
OTHER, WEAK = '"other"', f"W/{ETAG}"


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        (200, {}),
        (200, {"if_match": ETAG}),
        (200, {"if_match": "*"}),
        (200, {"if_match": f"{OTHER}, {ETAG}"}),
        (200, {"if_match": [OTHER, ETAG]}),
        (200, {"if_match": f' ,{OTHER}\t,, "a,b" , {ETAG},'}),
        (412, {"if_match": WEAK}),
        (412, {"if_match": OTHER}),
        (412, {"if_match": ETAG.strip('"')}),
        (412, {"if_match": f"{OTHER} {ETAG}"}),
        (304, {"if_none_match": ETAG}),
        (304, {"if_none_match": WEAK}),
        (304, {"if_none_match": "*"}),
        (304, {"if_none_match": f"{OTHER}, {WEAK}"}),
        (200, {"if_none_match": OTHER}),
        (200, {"if_none_match": "rubbish"}),
        (304, {"if_modified_since": LAST_MODIFIED}),
        (304, {"if_modified_since": NEW}),
        (200, {"if_modified_since": OLD}),
        (304, {"if_modified_since": "Saturday, 21-Nov-26 08:49:37 GMT"}),
        (304, {"if_modified_since": "Sat Nov 21 08:49:37 2026"}),
        (200, {"if_modified_since": "Sat Nov  7 08:49:37 2026"}),
        (200, {"if_modified_since": "Saturday, 21-Nov-69 08:49:37 GMT"}),
        (304, {"if_modified_since": "Saturday, 21-Nov-68 08:49:37 GMT"}),
        (200, {"if_modified_since": "tomorrow"}),
        (200, {"if_modified_since": "Sat, 31 Feb 2027 08:49:37 GMT"}),
        (200, {"if_modified_since": [LAST_MODIFIED, LAST_MODIFIED]}),
        (200, {"if_unmodified_since": LAST_MODIFIED}),
        (200, {"if_unmodified_since": NEW}),
        (412, {"if_unmodified_since": OLD}),
        (200, {"if_unmodified_since": "never"}),
        # the order of RFC 9110 section 13.2.2
        (200, {"if_match": ETAG, "if_unmodified_since": OLD}),
        (412, {"if_match": OTHER, "if_unmodified_since": NEW, "if_none_match": ETAG}),
        (304, {"if_match": ETAG, "if_none_match": ETAG}),
        (412, {"if_unmodified_since": OLD, "if_modified_since": NEW}),
        (200, {"if_none_match": OTHER, "if_modified_since": NEW}),
        (304, {"if_none_match": ETAG, "if_modified_since": OLD}),
        (304, {"if_none_match": ETAG, "range": "bytes=0-1"}),
        (412, {"if_match": OTHER, "range": "bytes=999999-"}),
        (206, {"range": "bytes=0-1"}),
        (206, {"range": "bytes=0-1", "if_range": ETAG}),
        (206, {"range": "bytes=0-1", "if_range": LAST_MODIFIED}),
        (206, {"range": "bytes=0-1", "if_range": "Sat Nov 21 08:49:37 2026"}),
        (200, {"range": "bytes=0-1", "if_range": WEAK}),
        (200, {"range": "bytes=0-1", "if_range": OTHER}),
        (200, {"range": "bytes=0-1", "if_range": OLD}),
        (200, {"range": "bytes=0-1", "if_range": NEW}),
        (200, {"range": "bytes=0-1", "if_range": "rubbish"}),
        (200, {"range": "bytes=0-1", "if_range": [ETAG, ETAG]}),
        (200, {"range": "bytes=999999-", "if_range": OTHER}),
        (416, {"range": "bytes=999999-", "if_range": ETAG}),
        (416, {"range": "bytes=-0"}),
        (200, {"if_range": OTHER}),
        (206, {"if_match": ETAG, "if_none_match": OTHER, "range": "bytes=5-5"}),
    ],
)
async def test_conditions_decide_in_the_order_of_the_standard(
    shelf: ReadingHarness, status: int, fields: dict[str, Any]
) -> None:
    number = await shelf.put(DATA)
    response, body = await ask(shelf, number, **fields)
    assert response.status == status
    assert (response.error is not None) == (status in {412, 416})
    assert named(response)["ETag"] == ETAG
    assert bool(body) == (status in {200, 206})
    if status == 304:
        assert set(named(response)) & {"Content-Length", "Content-Type", "Last-Modified", "Repr-Digest"} == set()
    if status == 206 and "if_range" in fields:
        assert set(named(response)) & {"Last-Modified", "Repr-Digest"} == set()
    head, _ = await ask(shelf, number, "HEAD", **fields)
    without = {k: v for k, v in fields.items() if k not in {"range", "if_range"}}
    plain, _ = await ask(shelf, number, **without)
    assert (head.status, head.headers, head.body) == (plain.status, plain.headers, None)


async def test_the_date_in_the_answer_is_the_creation_to_the_second() -> None:
    assert parsedate_to_datetime(LAST_MODIFIED) == CREATED.replace(microsecond=0)
    assert format_datetime(CREATED.replace(microsecond=0), usegmt=True) == LAST_MODIFIED


@pytest.mark.parametrize(
    ("title", "name"),
    [
        (None, ""),
        ("build.log", "build.log"),
        ("../../etc/passwd", "_.._etc_passwd"),
        ("...", ""),
        ("a\u202egpj.exe", "agpj.exe"),
        ("x" * 500, "x" * 120),
        ("\ud800", ""),
        ("a\tb\nc", "a b c"),
    ],
)
def test_a_title_becomes_a_name_that_is_safe_to_write(title: str | None, name: str) -> None:
    assert file_name(title) == name


async def test_without_a_title_the_file_has_the_artifacts_id(shelf: ReadingHarness) -> None:
    artifact = shelf.artifact(await shelf.put(b"x"))
    assert content_disposition(artifact) == f'attachment; filename="{artifact.id}"'


class Wire:
    """A client's end of ASGI."""

    def __init__(self, leave_after: int = 10**9) -> None:
        self.messages: list[Any] = []
        self._leave_after = leave_after

    async def receive(self) -> dict[str, Any]:
        if len(self.messages) >= self._leave_after:
            return {"type": "http.disconnect"}
        await asyncio.sleep(0)
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(self, message: Any) -> None:  # noqa: ANN401
        self.messages.append(message)
        await asyncio.sleep(0)

    @property
    def body(self) -> bytes:
        return b"".join(m.get("body", b"") for m in self.messages)


async def test_a_sent_response_has_one_start_and_exactly_its_length(shelf: ReadingHarness) -> None:
    data = R.randbytes(3_500_000)
    for size in (0, 1, 1_048_576, 3_500_000):
        number = await shelf.put(data[:size])
        for fields in ([], [(b"range", b"bytes=1-2,7-9,3000000-")]):
            response = respond(payload(shelf.artifact(number), shelf.content(number)), "GET", request_fields(fields))
            wire = Wire()
            await send_content(response, wire.receive, wire.send)
            length = int(dict(response.headers).get("Content-Length", "0"))
            assert [m["type"] for m in wire.messages].count("http.response.start") == 1
            assert len(wire.body) == length
            assert [m["more_body"] for m in wire.messages[1:]][-1] is False


async def test_a_client_that_leaves_stops_the_reading(shelf: ReadingHarness) -> None:
    number = await shelf.put(b"0123456789" * 2_000_000)
    content = shelf.content(number)
    response = respond(payload(shelf.artifact(number), content), "GET", request_fields([]))
    wire = Wire(leave_after=3)
    await send_content(response, wire.receive, wire.send)
    assert content.store_reads < 8


async def test_damaged_bytes_are_never_sent_as_a_whole_answer(shelf: ReadingHarness) -> None:
    number = await shelf.put(DATA)
    shelf.damage(number)
    response = respond(payload(shelf.artifact(number), shelf.content(number)), "GET", request_fields([]))
    wire = Wire()
    with pytest.raises(CoatcheckError) as caught:
        await send_content(response, wire.receive, wire.send)
    assert (caught.value.code, wire.messages) == (Code.INTEGRITY, [])


async def test_a_payload_whose_digest_differs_breaks_off_before_its_end(shelf: ReadingHarness) -> None:
    one, two = await shelf.put(b"a" * 5_000_000), await shelf.put(b"b" * 5_000_000)
    swapped = FoundArtifact(shelf.artifact(one), None)
    response = respond(payload(swapped.artifact, shelf.content(two)), "GET", request_fields([]))
    wire = Wire()
    with pytest.raises(CoatcheckError) as caught:
        await send_content(response, wire.receive, wire.send)
    assert caught.value.code is Code.INTEGRITY
    assert len(wire.body) < 5_000_000
