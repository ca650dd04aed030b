"""What is given to the client and is odd, or wrong: what can be sent is sent, and what cannot is no outage."""

import io
import os
import random
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from client.transports import Scripted, refuses
from coatcheck_client import AsyncClient, Client, Retries, ServiceError
from coatcheck_client.options import DEFAULT_URL, find_url, make_headers
from coatcheck_client.results import Artifact, Receipt
from support.service import Service

LONG = "長" * 900
"""Nine bytes of a URL each."""


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client(service.url) as opened:
        yield opened


def known(client: Client, receipt: Receipt) -> Artifact:
    assert receipt.stored
    return client.describe(receipt.id).artifact


async def each_way(to: str, payload: bytes, tmp_path: Path, **said: Any) -> list[Receipt]:  # noqa: ANN401
    """The same payload handed over in every way that has arguments in the URL."""
    file = tmp_path / "payload"
    file.write_bytes(payload)

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(payload), 7):
            yield payload[at : at + 7]

    with Client(to) as here:
        got = [
            here.put(payload, **said),
            here.put_file(file, **said),
            here.put_stream(io.BytesIO(payload), **said),
        ]
    async with AsyncClient(to) as there:
        got += [
            await there.put(payload, **said),
            await there.put_file(file, **said),
            await there.put_stream(pieces(), **said),
        ]
    return got


# ---------------------------------------------------------------------------------------------- what can be sent


async def test_half_a_surrogate_pair_in_a_name_is_replaced_as_it_is_beside_text(
    service: Service, client: Client, tmp_path: Path
) -> None:
    said = {"tool_name": "a\ud800", "labels": ["b\udfff"], "session": "halves"}
    got = await each_way(service.url, b"some bytes", tmp_path, **said)
    got.append(client.put("some text", **said))  # type: ignore[arg-type]
    for receipt in got:
        artifact = known(client, receipt)
        assert (artifact.tool_name, artifact.labels) == ("a\ufffd", ("b\ufffd",))


def test_halves_that_belong_together_are_one_character(client: Client) -> None:
    assert known(client, client.put(b"a pair", title="\ud83d\ude00")).title == "😀"


def test_a_file_s_name_may_be_no_utf_8(client: Client, tmp_path: Path) -> None:
    file = tmp_path / os.fsdecode(b"caf\xe9.txt")
    file.write_bytes(b"in Latin-1")
    assert known(client, client.put_file(file)).title == "caf\ufffd.txt"


def test_long_text_with_half_a_pair_is_the_same_artifact_as_beside_the_limit(client: Client) -> None:
    text = "x" * 4 * 1024**2 + "\ud83d."
    assert client.content(client.put(text).id).endswith("\ufffd.".encode())


async def test_a_title_of_any_length_is_cut_where_the_service_cuts_titles(
    service: Service, client: Client, tmp_path: Path
) -> None:
    got = await each_way(service.url, b"abc", tmp_path, title="t" * 200_000)
    got.append(client.put("abc", title="t" * 200_000))
    assert {known(client, receipt).title for receipt in got} == {"t" * 999 + "…"}
    assert {receipt.warnings[0].code for receipt in got} == {"metadata_adjusted"}


@pytest.mark.parametrize(
    "said",
    [
        {"command": "python3 - <<'E'\n" + "print(1)\n" * 60_000},
        {"tool_call_id": "call_2945190__thought__" + "A" * 1_400},
        {"tool_name": "n\r\nx" * 300},
        {"url": "https://example.org/" + "p" * 90_000},
        {"media_type": "text"},
        {"media_type": "text/x\r\ny: z"},
        {"media_type": "text/html; a=é"},
        {"media_type": "text/" + "x" * 2_000},
        {"kind": "markdown"},
        {"labels": ["l" * 1_000]},
    ],
    ids=lambda said: next(iter(said)),
)
async def test_a_description_never_costs_the_payload(
    service: Service, client: Client, tmp_path: Path, said: dict[str, Any]
) -> None:
    payload = random.Random(6).randbytes(30_000).hex().encode()
    got = await each_way(service.url, payload, tmp_path, session=repr(said)[:40], **said)
    got.append(client.put(payload.decode(), session="as text", **said))
    assert [receipt.stored for receipt in got] == [True] * len(got)
    assert {client.content(receipt.id) for receipt in got} == {payload}


async def test_what_no_url_can_hold_arrives_all_the_same(service: Service, client: Client, tmp_path: Path) -> None:
    payload = random.Random(5).randbytes(700_000)
    said: dict[str, Any] = {
        "media_type": "application/x-thing; a=b",
        "tool_name": "make",
        "session": "form",
        "url": f"https://example.org/{LONG * 8}",
        "title": LONG,
        "query": LONG * 4,
        "labels": [f"{n}{LONG[:120]}" for n in range(32)],
        "ttl": None,
        "pin": True,
        "oversize": "keep_ends",
    }
    got = await each_way(service.url, payload, tmp_path, **said)
    assert len({receipt.id for receipt in got}) == 1
    artifact = known(client, got[0])
    assert client.content(artifact.id) == payload
    assert (artifact.media_type, artifact.tool_name, artifact.session) == (said["media_type"], "make", "form")
    assert (artifact.url, artifact.title, list(artifact.labels)) == (said["url"], LONG, said["labels"])
    assert (artifact.ttl, artifact.pinned) == (None, True)


def test_a_form_is_sent_again_as_the_same_put(service: Service) -> None:
    lost = [True]

    class Once(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            response = super().handle_request(request)
            if not lost:
                return response
            lost.pop()
            response.read()
            response.close()
            raise httpx.ReadError("Connection reset by peer", request=request)

    with Client(service.url, transport=Once(), sleep=lambda _: None) as opened:
        receipt = opened.put(b"in a form", title=LONG, session="form-again")
        assert [one.id for one in opened.artifacts(session="form-again").items] == [receipt.id]


def test_blanks_around_a_header_s_value_are_no_part_of_it(client: Client) -> None:
    receipt = client.put(b"<p>", media_type=" text/html ", idempotency_key=" mine ")
    assert known(client, receipt).media_type == "text/html"


def test_a_file_that_grows_is_stored_as_it_was_when_it_was_opened(service: Service, tmp_path: Path) -> None:
    file = tmp_path / "growing.log"
    file.write_bytes(b"x" * 600_000)
    with Client(service.url, transport=_Meanwhile(lambda: _append(file))) as opened:
        receipt = opened.put_file(file)
        assert opened.content(receipt.id) == b"x" * 600_000


def test_a_file_that_shrinks_is_sent_again_as_it_is_now(service: Service, tmp_path: Path) -> None:
    file = tmp_path / "turned.log"
    file.write_bytes(b"x" * 900_000)
    pauses: list[float] = []
    transport = _Meanwhile(lambda: os.truncate(file, 300_000))
    with Client(service.url, transport=transport, sleep=pauses.append) as opened:
        receipt = opened.put_file(file)
        assert (opened.content(receipt.id), len(pauses)) == (b"x" * 300_000, 1)


class _Meanwhile(httpx.HTTPTransport):
    """A connection beside which something happens, once, after the first piece of the first body."""

    def __init__(self, happens: Callable[[], None]) -> None:
        super().__init__()
        self._happens: Callable[[], None] | None = happens

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        stream = request.stream
        assert isinstance(stream, httpx.SyncByteStream)
        request.stream = _Beside(stream, self._once)
        return super().handle_request(request)

    def _once(self) -> None:
        if self._happens is not None:
            self._happens()
        self._happens = None


class _Beside(httpx.SyncByteStream):
    def __init__(self, inner: httpx.SyncByteStream, then: Callable[[], None]) -> None:
        self._inner = inner
        self._then = then

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._inner:
            yield piece
            if piece:
                self._then()


def _append(file: Path) -> None:
    with file.open("ab") as opened:
        opened.write(b"y" * 600_000)


# ---------------------------------------------------------------------------------------------- what cannot


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("idempotency_key", {"idempotency_key": "é"}),
    ("idempotency_key", {"idempotency_key": "a\nb"}),
    ("idempotency_key", {"idempotency_key": "\ud800"}),
    ("idempotency_key", {"idempotency_key": "k" * 1_000_000}),
]


@pytest.mark.parametrize(("name", "said"), WRONG)
def test_what_no_header_can_hold_is_known_at_once_and_the_argument_is_named(
    name: str, said: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "payload"
    file.write_bytes(b"abc")
    line, pauses = Scripted(refuses), list[float]()
    opened = Client("http://127.0.0.1:1", transport=line, sleep=pauses.append)
    for way in (
        lambda: opened.put(b"abc", **said),
        lambda: opened.put_file(file, **said),
        lambda: opened.put_stream(io.BytesIO(b"abc"), **said),
    ):
        (warning,) = way().warnings
        assert (warning.code, f"'{name}'" in warning.message) == ("invalid_request", True)
    assert (len(line.requests), pauses) == (0, [])


def test_a_key_that_no_header_can_hold_is_wrong_beside_text_too() -> None:
    opened = Client("http://127.0.0.1:1", transport=Scripted(refuses))
    assert "'idempotency_key'" in opened.put("text", idempotency_key="é").warnings[0].message
    with pytest.raises(ServiceError, match="idempotency_key"):
        opened.search_results({}, idempotency_key="é")


def test_a_wrong_argument_is_no_outage() -> None:
    """What httpx itself refuses to send is asked for once, and leaves the next request its attempts."""

    def refused(request: httpx.Request) -> httpx.Response:
        raise httpx.LocalProtocolError("Illegal header value", request=request)

    line, pauses = Scripted(refused, refuses), list[float]()
    opened = Client("http://127.0.0.1:1", transport=line, sleep=pauses.append)
    assert opened.put(b"abc").warnings[0].code == "invalid_request"
    assert (len(line.requests), pauses) == (1, [])
    opened.put(b"abc")
    assert (len(line.requests), len(pauses)) == (5, 3)


def test_a_wrong_argument_during_an_outage_does_not_end_the_doubt() -> None:
    line, pauses = Scripted(refuses), list[float]()
    opened = Client("http://127.0.0.1:1", transport=line, sleep=pauses.append)
    opened.put(b"abc")
    with pytest.raises(ServiceError):
        opened.describe("x" * 70_000)
    opened.put(b"abc")
    assert (len(line.requests), len(pauses)) == (5, 3)


def test_an_id_or_a_session_that_no_url_can_hold_is_an_error(client: Client) -> None:
    for name in ("a\ud800", "x" * 70_000):
        with pytest.raises(ServiceError):
            client.describe(name)
        with pytest.raises(ServiceError):
            client.content(name)
    assert client.delete_session("a\ud800") == 0


def test_content_of_any_depth_is_sent_and_a_body_of_any_depth_is_an_error(client: Client) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert client.content(client.put({"a": deep}).id) == b'{"a":' + b"[" * 100_001 + b"]" * 100_001 + b"}"
    with pytest.raises(ServiceError, match="nested too deeply"):
        client.compact(deep)


def test_where_the_service_is_and_the_key_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COATCHECK_URL", "http://coatcheck.example:1234/")
    monkeypatch.setenv("COATCHECK_KEY", "ck_live_abc")
    assert find_url(None) == "http://coatcheck.example:1234"
    assert make_headers(None)["authorization"] == "Bearer ck_live_abc"
    assert (find_url("http://other:1"), make_headers("own")["authorization"]) == ("http://other:1", "Bearer own")
    monkeypatch.delenv("COATCHECK_URL")
    monkeypatch.delenv("COATCHECK_KEY")
    assert (find_url(None), "authorization" in make_headers(None)) == (DEFAULT_URL, False)


def test_what_was_not_stored_cannot_be_read_and_that_is_said() -> None:
    with Client("http://127.0.0.1:1", retries=Retries(attempts=1)) as client:
        receipt = client.put("some output")
        assert receipt.id == ""
        with pytest.raises(ServiceError, match="not stored") as refused:
            client.search(receipt.id, "error")
    assert (refused.value.code, refused.value.status) == ("invalid_request", None)


@pytest.mark.parametrize("content", ["one line", b"one line"])
def test_the_empty_id_of_what_was_not_stored_names_nothing(client: Client, content: str | bytes) -> None:
    assert client.put(content, session="empty", compare_to="").stored  # the run before was not
    assert client.read_artifact("").startswith("artifact_id is missing.")
    for refused in (
        lambda: client.read(""),
        lambda: next(client.events(artifact_id="")),
        lambda: client.admin.place_hold("an audit", artifact=""),
    ):
        with pytest.raises(ServiceError, match=r"\bID\b"):
            refused()
    assert not list(client.admin.holds())
