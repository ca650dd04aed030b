"""Ask nginx and Coatcheck's content handler the same range and conditional requests, and list where they differ.

Started by hand: `python bench/nginx_ranges.py [requests] [seed]`. Needs an `nginx` on the path (or in /usr/sbin) and
says so when there is none. Both serve the same bytes with the same date on loopback; entity tags are each server's
own. Every difference is put into a class with the reason why RFC 9110 allows ours; one without a class is an error.
"""

import asyncio
import hashlib
import http.client
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn

from coatcheck.adapters.system import SystemClock
from coatcheck.api.content import send_content
from coatcheck.api.http.representation import payload, request_fields, respond
from coatcheck.core.artifact import Artifact, Blob, DeclaredMetadata, DetectedMetadata, Kind, Measure
from coatcheck.core.encoding.seekable import FrameEncoder
from coatcheck.ports.catalog import FoundArtifact
from coatcheck.storing.content import OpenContent
from coatcheck_client.contract.answers import TokenCount
from support.memory_blobs import MemoryBlobStore

CREATED = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)
DATE, BEFORE, AFTER = "Sat, 14 Mar 2026 15:09:26 GMT", "Sat, 14 Mar 2026 15:09:25 GMT", "Sat, 14 Mar 2026 15:09:27 GMT"
SIZES = (0, 1, 10, 300_000)


class Reply(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes


def payloads() -> dict[int, bytes]:
    r = random.Random(1)
    return {size: r.randbytes(size) for size in SIZES}


def found_of(data: bytes) -> FoundArtifact:
    encoder = FrameEncoder()
    stored = encoder.feed(data) + encoder.finish()
    assert encoder.index is not None
    digest = hashlib.sha256(data).digest()
    blob = Blob(
        id=digest.hex(), placement="inline", size=len(data), stored_size=len(stored), sha256=digest,
        index=encoder.index.pack(),
    )  # fmt: skip
    measure = Measure(
        size=len(data),
        lines=0,
        chars=0,
        tokens=TokenCount(0, exact=False),
        sha256=digest,
        utf8=False,
    )
    artifact = Artifact(
        namespace="default", id="art_000000000000000097", declared=DeclaredMetadata(), measure=measure,
        facts=DetectedMetadata(kind=Kind.BINARY), blob=blob,
        created_at=CREATED, expires_at=None, ttl=None, idle_ttl=None,
    )  # fmt: skip
    return FoundArtifact(artifact, stored)


class NoRows:
    """There is no catalogue here: every payload is at hand."""

    async def inline_bytes(self, namespace: str, blob_id: str) -> bytes | None:
        """Never asked."""
        raise AssertionError((namespace, blob_id))


def application(kept: dict[int, FoundArtifact], pool: ThreadPoolExecutor) -> Any:  # noqa: ANN401 - an ASGI application
    opened = OpenContent(NoRows(), MemoryBlobStore(SystemClock()), pool)

    async def app(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401
        if scope["type"] != "http":
            return
        found = kept[int(scope["path"].removeprefix("/"))]
        fields = request_fields(scope["headers"])
        response = respond(payload(found.artifact, opened(found)), scope["method"], fields)
        if response.error is not None:
            response.headers.append(("Content-Length", "0"))
        await send_content(response, receive, send)

    return app


def start_ours(
    kept: dict[int, FoundArtifact], pool: ThreadPoolExecutor
) -> tuple[uvicorn.Server, threading.Thread, int]:
    server = uvicorn.Server(
        uvicorn.Config(application(kept, pool), host="127.0.0.1", port=0, log_level="error", lifespan="off")
    )
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    while not server.started:
        thread.join(0.01)
    return server, thread, server.servers[0].sockets[0].getsockname()[1]


def start_nginx(folder: Path, port: int) -> "subprocess.Popen[bytes]":
    binary = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if binary is None:
        sys.exit("nginx is not installed: install it (Debian: apt-get install nginx-light) and start this again.")
    for size, data in payloads().items():
        path = folder / str(size)
        path.write_bytes(data)
        os.utime(path, (CREATED.timestamp(), CREATED.timestamp()))
    folder.chmod(0o755)
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/error;\n"
        "events {}\n"
        f"http {{ access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;\n"
        f" fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;\n"
        " default_type application/octet-stream; if_modified_since before; large_client_header_buffers 8 64k;\n"
        f" server {{ listen 127.0.0.1:{port}; root {folder}; }} }}\n"
    )
    return subprocess.Popen([binary, "-c", str(folder / "nginx.conf"), "-e", str(folder / "error")])


def free_port() -> int:
    import socket  # noqa: PLC0415 - used here alone

    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def fetch(port: int, method: str, size: int, fields: dict[str, str]) -> Reply:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, f"/{size}", headers=fields)
        response = connection.getresponse()
        body = response.read()
        return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, body)
    finally:
        connection.close()


def make_request(r: random.Random) -> tuple[str, int, dict[str, str]]:
    """A method, a size, and fields in which MATCH, WEAK and OTHER stand for entity tags."""
    size = r.choice(SIZES)
    fields: dict[str, str] = {}
    if r.random() < 0.9:
        specs = ",".join(_spec(r, size) for _ in range(r.choice([1, 1, 1, 1, 2, 3, 5])))
        fields["Range"] = r.choice(["bytes=", "bytes=", "bytes=", "Bytes=", "items=", "bytes= ", "bytes"]) + specs
    for name, values in {
        "If-Range": ["MATCH", "WEAK", "OTHER", DATE, BEFORE, AFTER],
        "If-Match": ["MATCH", "WEAK", "OTHER", "*", "OTHER, MATCH"],
        "If-None-Match": ["MATCH", "WEAK", "OTHER", "*", "OTHER, WEAK"],
        "If-Modified-Since": [DATE, BEFORE, AFTER, "rubbish"],
        "If-Unmodified-Since": [DATE, BEFORE, AFTER, "rubbish"],
    }.items():
        if r.random() < 0.15:
            fields[name] = r.choice(values)
    return r.choice(["GET", "GET", "GET", "GET", "HEAD"]), size, fields


def _spec(r: random.Random, size: int) -> str:
    a, b = sorted((r.randrange(size + size // 4 + 3), r.randrange(size + size // 4 + 3)))
    zeros = r.choice(["", "", "", "000"])
    return r.choice(
        [
            f"{zeros}{a}-{b}",
            f"{a}-{b}",
            f"{a}-",
            f"-{a}",
            f"{a}-" + "9" * 25,
            f"{b + 1}-{a}",
            "-",
            "x-y",
            f" {a}-{b} ",
            "",
        ]
    )


def concrete(fields: dict[str, str], etag: str) -> dict[str, str]:
    tags = {"MATCH": etag, "WEAK": f"W/{etag}", "OTHER": '"other"'}
    return {k: re.sub("MATCH|WEAK|OTHER", lambda m: tags[m[0]], v) for k, v in fields.items()}


def ranges_of(reply: Reply) -> list[tuple[str, bytes]] | None:
    """What a 206 holds, part by part; None for other statuses."""
    if reply.status != 206:
        return None
    kind = reply.headers["content-type"]
    if not kind.startswith("multipart/byteranges"):
        return [(reply.headers["content-range"], reply.body)]
    dash = b"--" + kind.split("boundary=")[1].encode()
    parts: list[tuple[str, bytes]] = []
    for piece in (b"\r\n" + reply.body).split(b"\r\n" + dash)[1:-1]:
        head, data = piece.removeprefix(b"\r\n").split(b"\r\n\r\n", 1)
        found = re.search(rb"(?i)content-range: (.*)", head)
        assert found
        parts.append((found[1].strip().decode(), data))
    return parts


def classify(method: str, size: int, fields: dict[str, str], theirs: Reply, ours: Reply) -> str | None:
    """Why two answers may differ; None when they may not."""
    field = fields.get("Range", "")
    elements = [e.strip(" \t") for e in field.partition("=")[2].split(",")]
    both = (theirs.status, ours.status)
    reasons = {
        "HEAD with Range: nginx answers 206 or 416, we 200 (14.2: Range is defined for GET alone)": (
            method == "HEAD" and both in {(206, 200), (416, 200)}
        ),
        "malformed set: nginx answers 416 or what it could read, we ignore the field (14.2: MAY ignore)": (
            _malformed(elements) and ours.status == 200
        ),
        "If-Range with a weak tag: compared strongly (13.1.5), so that we answer 200": (
            fields.get("If-Range") == "WEAK" and ours.status == 200
        ),
        "empty payload: a suffix of it is answered whole, other ranges with 416 (14.1.2)": size == 0,
        "empty list elements are accepted (5.6.1.2); nginx answers 416": (
            "" in elements and both in {(416, 206), (416, 416)}
        ),
        "set longer than the payload: nginx ignores the field, we merge what overlaps (15.3.7.2: MAY coalesce)": (
            both == (200, 206) and len(elements) > 1
        ),
        "overlapping or adjacent ranges are merged (15.3.7.2: MAY coalesce); nginx sends them one by one": (
            both == (206, 206) and len(elements) > 1
        ),
        "suffix of no bytes is unsatisfiable (14.1.2)": any(re.fullmatch(r"-0+", e) for e in elements),
        "positions of over 18 digits are past the end here; nginx calls them malformed (416)": (
            bool(re.search(r"\d{19,}", field)) and theirs.status == 416
        ),
    }
    return _conditions(fields, *both) or next((reason for reason, holds in reasons.items() if holds), None)


def _malformed(elements: list[str]) -> bool:
    pairs = [re.fullmatch(r"(\d+)-(\d+)", e) for e in elements]
    spelt = all(re.fullmatch(r"\d+-\d*|-\d+|", e) for e in elements) and any(elements)
    return not spelt or any(p and int(p[1]) > int(p[2]) for p in pairs)


def _conditions(fields: dict[str, str], theirs: int, ours: int) -> str | None:
    since = fields.get("If-Unmodified-Since")
    if since == "rubbish" and theirs == 412:
        return "If-Unmodified-Since that is no date: ignored (13.1.4: MUST ignore); nginx answers 412"
    if "If-Match" in fields and since is not None and theirs == 412:
        return "If-Match holds: If-Unmodified-Since is not evaluated (13.2.2, step 2); nginx evaluates both"
    if "If-None-Match" in fields and "If-Modified-Since" in fields and ours == 304:
        return "If-None-Match decides: If-Modified-Since is ignored (13.1.3: MUST ignore); nginx needs both"
    return None


def same(theirs: Reply, ours: Reply) -> bool:
    if theirs.status != ours.status:
        return False
    if theirs.status == 206:
        return ranges_of(theirs) == ranges_of(ours)
    if theirs.status == 416:
        return theirs.headers.get("content-range") == ours.headers.get("content-range")
    lengths = {r.headers.get("content-length") for r in (theirs, ours)} if theirs.status == 200 else {None}
    return len(lengths) == 1 and (theirs.status != 200 or theirs.body == ours.body)


def compare(count: int, seed: int, nginx_port: int, our_port: int) -> int:
    r = random.Random(seed)
    tags = {p: {s: fetch(p, "GET", s, {}).headers["etag"] for s in SIZES} for p in (nginx_port, our_port)}
    differences: Counter[str] = Counter()
    statuses: Counter[int] = Counter()
    unexplained = 0
    for _ in range(count):
        method, size, fields = make_request(r)
        theirs = fetch(nginx_port, method, size, concrete(fields, tags[nginx_port][size]))
        ours = fetch(our_port, method, size, concrete(fields, tags[our_port][size]))
        statuses[ours.status] += 1
        if same(theirs, ours):
            continue
        reason = classify(method, size, fields, theirs, ours)
        if reason is None:
            unexplained += 1
            print(f"UNEXPLAINED {method} {size} {fields}: nginx {theirs.status}, Coatcheck {ours.status}")
        else:
            differences[reason] += 1
    print(f"{count} requests, seed {seed}; our statuses {dict(sorted(statuses.items()))}")
    print(f"{count - sum(differences.values()) - unexplained} alike, {unexplained} unexplained")
    for reason, times in differences.most_common():
        print(f"{times:6} {reason}")
    return 1 if unexplained else 0


def main(count: int = 5_000, seed: int = 1) -> int:
    kept = {size: found_of(data) for size, data in payloads().items()}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        port = free_port()
        nginx = start_nginx(Path(folder), port)
        server, thread, our_port = start_ours(kept, pool)
        try:
            for _ in range(500):
                with suppress(ConnectionError):
                    fetch(port, "HEAD", 1, {})
                    break
                thread.join(0.01)
            return compare(count, seed, port, our_port)
        finally:
            server.should_exit = True
            thread.join()
            nginx.terminate()
            nginx.wait()


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))
