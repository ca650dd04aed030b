"""A client that costs little: one connection, whole answers. Refuses to retry: the harness must see each failure."""

import http.client
import json
import socket
import struct
from typing import Any, NamedTuple
from urllib.parse import urlencode

Broken = (OSError, http.client.HTTPException)
"""What a call raises when the service went away."""
_ANY = "application/octet-stream"
_ASKED = 20
"""Times that a list is asked for."""


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:  # noqa: ANN401 - JSON
        """The body as JSON."""
        return json.loads(self.body)

    def __str__(self) -> str:
        """For reports."""
        return f"{self.status} {self.body[:300]!r}"


class Caller:
    """One connection, opened when needed. Not for two threads at once."""

    def __init__(self, host: str, port: int, timeout: float) -> None:
        self._http = http.client.HTTPConnection(host, port, timeout=timeout)

    def call(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        """Call it; raises one of `Broken` when there is no whole answer. Underscores in header names are hyphens."""
        try:
            self._http.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
            answer = self._http.getresponse()
            return Answer(answer.status, answer.read(), {k.lower(): v for k, v in answer.getheaders()})
        except Broken:
            self._http.close()
            raise
        except AttributeError as error:  # http.client closes what ends inside an answer twice, and fails
            self._http.close()
            raise http.client.IncompleteRead(b"") from error

    def post(self, payload: bytes, *, key: str | None = None, **said: Any) -> Answer:  # noqa: ANN401 - a query's fields
        """Post a payload raw."""
        path = f"/v1/artifacts/raw?{urlencode(said)}"
        if key is None:
            return self.call("POST", path, payload, content_type=_ANY)
        return self.call("POST", path, payload, content_type=_ANY, idempotency_key=key)

    def content(self, name: str, span: str | None = None, *, view: str | None = None) -> Answer:
        """The stored payload or a view of it, or a Range of that."""
        path = f"/v1/artifacts/{name}/content" + ("" if view is None else f"?view={view}")
        return self.call("GET", path) if span is None else self.call("GET", path, range=span)

    def finds(self, words: str) -> set[str]:
        """The IDs of all artifacts that a query lists, asked until it says that nothing is missing."""
        found: set[str] = set()
        cursor: str | None = None
        for _ in range(_ASKED):
            more = {} if cursor is None else {"cursor": cursor}
            answer = self.call("GET", f"/v1/artifacts?{urlencode({'q': words, 'limit': 200, **more})}")
            assert answer.status == 200, answer
            found.update(item["id"] for item in answer.json["items"])
            cursor = answer.json["next"]
            if cursor is None and not answer.json.get("partial", False):
                break
        return found

    def delete(self, name: str) -> Answer:
        """Delete an artifact."""
        return self.call("DELETE", f"/v1/artifacts/{name}")

    def ready(self) -> Answer:
        """Whether it can serve."""
        return self.call("GET", "/health/ready")

    def close(self) -> None:
        """Let go."""
        self._http.close()


class SlowUpload:
    """An upload that is sent in pieces, when the harness says so."""

    def __init__(self, host: str, port: int, size: int, query: str = "") -> None:
        self.left = size
        self.socket = socket.create_connection((host, port), timeout=30)
        head = f"POST /v1/artifacts/raw?{query} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {size}"
        self.socket.sendall(f"{head}\r\n\r\n".encode())

    def send(self, data: bytes) -> None:
        """Send more of the body."""
        self.left -= len(data)
        self.socket.sendall(data)

    def answer(self) -> Answer:
        """The answer to what was sent whole; closes the connection."""
        assert self.left == 0
        with self.socket:
            response = http.client.HTTPResponse(self.socket)
            response.begin()
            return Answer(response.status, response.read(), {k.lower(): v for k, v in response.getheaders()})

    def vanish(self, *, abruptly: bool) -> None:
        """Go away: with a reset, or with the end that a killed process's system sends."""
        vanish(self.socket, abruptly=abruptly)


def vanish(connection: socket.socket, *, abruptly: bool) -> None:
    """Close a connection, with a reset when it is to be abrupt."""
    if abruptly:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
