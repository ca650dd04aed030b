import random

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coatcheck.api.http.body import RequestBody
from coatcheck.api.http.forms import Form
from coatcheck.api.http.limits import RequestLimits
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.runtime.concurrency_limiter import Sender
from support.faces import FaceHarness

BOUNDARY = "b0und"
HEADERS = {"content-type": f"multipart/form-data; boundary={BOUNDARY}"}


def field(name: str, value: bytes) -> bytes:
    return b'--%b\r\ncontent-disposition: form-data; name="%b"\r\n\r\n%b\r\n' % (
        BOUNDARY.encode(),
        name.encode(),
        value,
    )


def file(value: bytes, name: str = "file", more: bytes = b'; filename="x.log"') -> bytes:
    head = b'--%b\r\nContent-Disposition: form-data; name="%b"%b\r\nContent-Type: text/x-log\r\n\r\n'
    return head % (BOUNDARY.encode(), name.encode(), more) + value + b"\r\n"


END = f"--{BOUNDARY}--\r\n".encode()


class Pieces:
    """A body in the pieces given."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces[::-1]

    async def read(self) -> bytes:
        while self._pieces:
            piece = self._pieces.pop()
            if piece:
                return piece
        return b""


async def parsed(pieces: list[bytes]) -> tuple[bytes, list[tuple[str, str]]]:
    form = Form(RequestBody(Pieces(pieces), None, Sender()), BOUNDARY, RequestLimits())
    await form.open()
    data = b"".join([piece async for piece in form])
    return data, form.fields


@settings(max_examples=150, deadline=None)
@given(st.data())
async def test_a_form_cut_anywhere_gives_its_file_and_its_fields(data: st.DataObject) -> None:
    rng = random.Random(data.draw(st.integers()))
    payload = data.draw(
        st.sampled_from([b"", b"\r\n", b"\r\n--b0un", b"--b0und", rng.randbytes(5000), b"\r\n--b0undX" * 50])
    )
    payload = payload.replace(b"\r\n--b0und", b"\r\n--b0uns")
    body = field("session", b"s") + file(payload) + field("title", "über".encode()) + END
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=12)))
    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    assert await parsed(pieces) == (payload, [("session", "s"), ("title", "über")])


async def test_fields_may_follow_the_file_and_the_file_name_is_the_title(client: httpx.AsyncClient) -> None:
    body = field("tool_name", b"make") + file(b"out\n", more=b'; filename="../build log.txt"') + field("session", b"s")
    answer = await client.post(
        "/v1/artifacts", content=body + field("labels", b"a") + field("labels", b"b") + END, headers=HEADERS
    )
    known = (await client.get(answer.headers["location"])).json()["artifact"]
    said = {name: known[name] for name in ("tool_name", "session", "labels", "title", "media_type")}
    assert said == {
        "tool_name": "make",
        "session": "s",
        "labels": ["a", "b"],
        "title": "../build log.txt",
        "media_type": "text/x-log",
    }


async def test_a_part_named_content_needs_no_file_name_and_a_title_wins(client: httpx.AsyncClient) -> None:
    body = field("title", b"mine") + file(b"out\n", name="content", more=b"") + END
    answer = await client.post("/v1/artifacts", content=body, headers=HEADERS)
    known = (await client.get(answer.headers["location"])).json()["artifact"]
    assert (known["title"], answer.json()["text"]) == ("mine", "out\n")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (field("session", b"s") + END, 400, "invalid_request"),
        (END, 400, "invalid_request"),
        (file(b"a") + file(b"b") + END, 400, "invalid_request"),
        (file(b"a") + field("colour", b"red") + END, 400, "invalid_request"),
        (field("card_tokens", b"5") + file(b"a") + END, 400, "invalid_request"),
        (file(b"a") + field("card_tokens", b"5") + END, 400, "invalid_request"),
        (field("session", b"\xff") + file(b"a") + END, 400, "invalid_request"),
        (field("session", b"a") + field("session", b"b") + file(b"a") + END, 400, "invalid_request"),
        (file(b"a") + field("oversize", b"keep_ends") + END, 400, "invalid_request"),
        (file(b"a", more=b'; filename="x"\r\nContent-Transfer-Encoding: base64') + END, 400, "invalid_request"),
        (b"no form at all", 400, "invalid_request"),
        (b"", 400, "invalid_request"),
        (file(b"a").replace(b"b0und", b"other") + END.replace(b"b0und", b"other"), 400, "invalid_request"),
        (b"x" * 200_000, 400, "invalid_request"),
        (file(b"a"), 400, "truncated_body"),
        (file(b"a")[:-20], 400, "truncated_body"),
        (file(b"a") + b"".join(field("labels", b"x") for _ in range(70)) + END, 400, "invalid_request"),
        (field("query", b"x" * 70_000) + file(b"a") + END, 413, "body_too_large"),
        (b"--b0und\r\nX-Long: " + b"x" * 10_000 + b"\r\n\r\n" + END, 400, "invalid_request"),
    ],
)
async def test_a_form_that_is_none_stores_nothing(
    client: httpx.AsyncClient, harness: FaceHarness, body: bytes, status: int, code: str
) -> None:
    answer = await client.post("/v1/artifacts", content=body, headers=HEADERS)
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert harness.is_empty()


@pytest.mark.parametrize(
    "sent", ["multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=" + "x" * 71]
)
async def test_a_form_without_a_boundary_is_refused(client: httpx.AsyncClient, sent: str) -> None:
    answer = await client.post("/v1/artifacts", content=file(b"a") + END, headers={"content-type": sent})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")


async def test_a_file_is_handed_on_while_it_arrives() -> None:
    head, tail = file(b"")[:-2], b"\r\n" + END
    seen: list[int] = []

    class Endless(Pieces):
        async def read(self) -> bytes:
            seen.append(1)
            return await super().read()

    form = Form(RequestBody(Endless([head, *[b"x" * 100_000] * 50, tail]), None, Sender()), BOUNDARY, RequestLimits())
    await form.open()
    assert len(seen) == 1
    sizes = [(len(piece), len(seen)) async for piece in form]
    assert sizes == [(100_000, n) for n in range(2, 52)]


async def test_what_follows_the_form_is_passed_over_until_it_is_too_much() -> None:
    assert await parsed([file(b"a") + END, b"x" * 60_000]) == (b"a", [])
    with pytest.raises(CoatcheckError) as e:
        await parsed([file(b"a") + END, *[b"x" * 10_000] * 9])
    assert e.value.code is Code.INVALID_REQUEST


async def test_a_truncated_body_is_told_from_a_complete_one() -> None:
    with pytest.raises(CoatcheckError) as e:
        await parsed([file(b"payload")[:-1]])
    assert e.value.code is Code.TRUNCATED_BODY


async def test_a_boundary_that_does_not_occur_is_told_from_a_form_that_ends_early() -> None:
    whole = file(b"a") + END
    for pieces in ([whole[:-12]], [whole[at : at + 1] for at in range(len(whole) - 12)]):
        with pytest.raises(CoatcheckError) as error:
            await parsed(pieces)
        assert error.value.code is Code.TRUNCATED_BODY
    other = whole.replace(b"b0und", b"b1und")
    for pieces in ([other], [other[at : at + 1] for at in range(len(other))], [b"--b0un"]):
        with pytest.raises(CoatcheckError) as error:
            await parsed(pieces)
        assert error.value.code is Code.INVALID_REQUEST
        assert "boundary" in error.value.detail
