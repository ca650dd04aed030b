"""What the S3 store asks of the network, what it calls its objects, and which URLs it takes."""

import contextlib
import random
from datetime import UTC, datetime
from pathlib import Path

import pytest

from coatcheck.adapters.blobs.s3 import S3BlobStore
from coatcheck.adapters.blobs.s3_bucket import Patience
from coatcheck.adapters.blobs.s3_location import NamespaceAndId, S3Location, encode_namespace, parse_s3_url
from coatcheck.core.encoding.frames import blob_day, new_blob_id
from coatcheck.core.errors import Code
from support.http_proxy import HttpProxy
from support.refusals import code_of
from support.s3 import S3Server, running_s3

NOW = datetime(2026, 3, 1, 23, 59, 59, 999_000, tzinfo=UTC)


def blob_id(seed: int) -> str:
    return new_blob_id(NOW, random.Random(seed).randbytes(10))


async def put(store: S3BlobStore, name: str, data: bytes, namespace: str = "acme") -> None:
    writer = await store.create(namespace, name)
    for start in range(0, len(data), 500_000):
        await writer.write(data[start : start + 500_000])
    await writer.finish()


async def test_each_call_costs_the_requests_that_it_needs(server: S3Server, proxy: HttpProxy) -> None:
    store = S3BlobStore.open(server.url("requests", endpoint=proxy.endpoint))
    name, large = blob_id(1), blob_id(2)

    async def asked(call: object) -> list[str]:
        proxy.forget()
        await call  # type: ignore[misc]
        return [request.method for request in proxy.requests]

    assert await asked(store.reaches()) == ["GET"]
    assert await asked(put(store, name, bytes(3_000_000))) == ["PUT"]
    assert await asked(store.read("acme", name, 1_000_000, 4096)) == ["GET"]
    assert proxy.requests[0].headers["range"] == "bytes=1000000-1004095"
    assert await asked(store.size("acme", name)) == ["HEAD"]
    assert await asked(put(store, large, bytes(20_000_000))) == ["PUT", "POST", "PUT", "PUT", "PUT", "POST"]
    assert await asked(store.remove("acme", large)) == ["HEAD", "DELETE"]
    assert await asked(store.remove("acme", large)) == ["HEAD", "GET"]


async def test_every_upload_is_conditional_or_claimed_and_carries_its_checksum(
    server: S3Server, proxy: HttpProxy
) -> None:
    store = S3BlobStore.open(server.url(endpoint=proxy.endpoint))
    await put(store, blob_id(1), bytes(1000))
    await put(store, blob_id(2), bytes(9_000_000))
    puts = [request for request in proxy.requests if request.method == "PUT"]
    assert [request.headers.get("if-none-match") for request in puts] == ["*", "*", None, None]
    assert [len(request.headers["x-amz-checksum-sha256"]) for request in puts] == [44] * 4
    assert ["partNumber" in request.target for request in puts] == [False, False, True, True]


async def test_encryption_is_asked_for_with_every_object(server: S3Server, proxy: HttpProxy) -> None:
    store = S3BlobStore.open(server.url(endpoint=proxy.endpoint) + "&encryption=AES256&checksum=none")
    await put(store, blob_id(1), bytes(1000))
    await put(store, blob_id(2), bytes(9_000_000))
    making = [
        request for request in proxy.requests if "if-none-match" in request.headers or "uploads" in request.target
    ]
    assert [request.headers["x-amz-server-side-encryption"] for request in making] == ["AES256"] * 3
    assert [name for request in proxy.requests for name in request.headers if "checksum" in name] == []


async def test_names_carry_prefix_namespace_and_day_and_no_byte_of_a_user(server: S3Server, proxy: HttpProxy) -> None:
    store = S3BlobStore.open(server.url("coats/here", endpoint=proxy.endpoint))
    name = blob_id(3)
    await put(store, name, b"data", namespace="../Ünï/é %")
    assert [request.target for request in proxy.requests] == [
        f"/coatcheck/coats/here/.2e.2e.2f.c3.9cn.c3.af.2f.c3.a9.20.25/20260301/{name}"
    ]
    assert [(stored.namespace, stored.id, stored.size) async for stored in store.names()] == [("../Ünï/é %", name, 4)]
    assert await store.read("../Ünï/é %", name, 1, 2) == b"at"


async def test_stores_under_different_prefixes_of_a_bucket_do_not_see_each_other(server: S3Server) -> None:
    first, second = S3BlobStore.open(server.url("apart")), S3BlobStore.open(server.url("apart-2"))
    await put(first, blob_id(1), b"one")
    await put(second, blob_id(2), b"two")
    assert [stored.id async for stored in first.names()] == [blob_id(1)]
    assert [stored.id async for stored in second.names()] == [blob_id(2)]
    assert await first.size("acme", blob_id(2)) is None


async def test_a_listing_of_several_pages_is_whole(server: S3Server, proxy: HttpProxy) -> None:
    url = server.url(endpoint=proxy.endpoint)
    location = parse_s3_url(url)
    names = {blob_id(seed) for seed in range(1100)}
    await _fill(server, [location.name("acme", name) for name in names])
    assert {stored.id async for stored in S3BlobStore.open(url).names()} == names
    assert proxy.count("GET") == 2


async def _fill(server: S3Server, keys: list[str]) -> None:
    import http.client  # noqa: PLC0415 - for this test alone

    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port)) as connection:
        for key in keys:
            connection.request("PUT", f"/coatcheck/{key}", body=b"")
            assert connection.getresponse().read() == b""


async def test_what_was_acknowledged_survives_a_crash_of_a_server_that_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_s3(tmp_path) as own:
        for name, value in own.environment.items():
            monkeypatch.setenv(name, value)
        store = S3BlobStore.open(own.url(), Patience(retries=1))
        await put(store, blob_id(1), b"small")
        await put(store, blob_id(2), bytes(9_000_000))
        own.stop()
        assert await code_of(store.read("acme", blob_id(1), 0, 5)) is Code.STORAGE_UNAVAILABLE
        own.start()
        assert await store.read("acme", blob_id(1), 0, 5) == b"small"
        assert await store.size("acme", blob_id(2)) == 9_000_000


def test_the_day_of_a_name_is_the_utc_day_of_its_making() -> None:
    assert blob_day(blob_id(1)) == "20260301"
    assert blob_day("0" * 32) == "19700101"
    for wrong in ("f" * 32, "0" * 31, "../" + "0" * 29):
        with pytest.raises(ValueError, match="not a blob's name"):
            blob_day(wrong)


def test_namespaces_come_back_from_their_names_and_nothing_else_is_taken_for_one() -> None:
    location = S3Location(bucket="bucket", prefix="a/b/")
    for namespace in ("acme", "Ünïcode", "a.b", "..", "x/y", "-", "\0", "a" * 512):
        name = location.name(namespace, blob_id(1))
        assert location.parse(name) == NamespaceAndId(namespace, blob_id(1))
        assert name.isascii()
        assert name.count("/") == 4
    good = location.name("acme", blob_id(1))
    for other in (
        good[2:],
        good + "x",
        good.replace("20260301", "20260302"),
        good.replace("acme", "ac.6de"),
        "a/b/",
        "",
    ):
        assert location.parse(other) is None
    for wrong in ("", "a" * 513, "é" * 100):
        with pytest.raises(ValueError, match="not a namespace"):
            encode_namespace(wrong)


def test_a_blob_url_says_everything_and_no_secret() -> None:
    assert parse_s3_url("s3://coats") == S3Location(bucket="coats")
    assert parse_s3_url("s3://coats/") == S3Location(bucket="coats")
    full = (
        "s3://coats/a/b?endpoint=https://s3.example.org:9000&region=eu-west-1&addressing=virtual"
        "&checksum=crc64nvme&encryption=aws:kms&kms_key=arn:aws:kms:eu-west-1:1:key/2"
    )
    assert parse_s3_url(full) == S3Location(
        bucket="coats",
        prefix="a/b/",
        endpoint="https://s3.example.org:9000",
        region="eu-west-1",
        addressing="virtual",
        checksum="crc64nvme",
        encryption="aws:kms",
        kms_key="arn:aws:kms:eu-west-1:1:key/2",
    )
    assert parse_s3_url("s3://co.ats").addressing == "path"
    own = parse_s3_url("s3://coats?endpoint=http://127.0.0.1:9000/")
    assert (own.endpoint, own.addressing) == ("http://127.0.0.1:9000", "path")
    assert parse_s3_url("s3://coats?endpoint=http://[::1]:9000").endpoint == "http://[::1]:9000"


@pytest.mark.parametrize(
    "url",
    [
        "https://bucket",
        "s3://",
        "s3://UPPER",
        "s3://key:secret@bucket",
        "s3://key:secret@buck\u2100et",
        "s3://bucket:9000",
        "s3://bucket/a/../b",
        "s3://bucket/a//b",
        "s3://bucket/a b",
        "s3://bucket#x",
        "s3://bucket?unknown=1",
        "s3://bucket?region=",
        "s3://bucket?region=a&region=b",
        "s3://bucket?region",
        "s3://bucket?endpoint=ftp://host",
        "s3://bucket?endpoint=http://u:p@host",
        "s3://bucket?endpoint=http://host/path",
        "s3://bucket?addressing=both",
        "s3://bucket?checksum=md5",
        "s3://bucket?kms_key=1",
        f"s3://bucket/{'a' * 257}",
    ],
)
def test_a_wrong_blob_url_is_refused_with_a_sentence_that_repeats_no_secret(url: str) -> None:
    with pytest.raises(ValueError, match=r"^The blob URL") as caught:
        parse_s3_url(url)
    assert "secret" not in str(caught.value)
