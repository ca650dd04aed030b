"""Streamable HTTP in front of a server that speaks on its standard streams, for a suite that knows only HTTP.

Every session is a process of its own; requests of the protocol that has no sessions share one, unless their IDs are
alike. A message of the server that belongs to no request by itself goes to the stream of the latest one that is open.
Only Python's own library is needed.
"""

import contextlib
import json
import os
import subprocess
import threading
import uuid
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from typing import Any, Final
from urllib.parse import urlsplit

Json = Any
_OWN: Final = "COATCHECK_STACKS_"
"""What variables of these tests begin with, which are no settings."""
_SESSION: Final = "mcp-session-id"
_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
"""What a request says by itself from protocol 2026-07-28 on, which has no sessions."""


class Process:
    """A server that runs, and the requests that it has not answered."""

    def __init__(self, command: Sequence[str]) -> None:
        pipe = subprocess.PIPE
        env = {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=env)
        self._lock = threading.Lock()
        self._open: dict[Json, SimpleQueue[Json]] = {}
        self._tokens: dict[Json, Json] = {}
        """Requests by their progress tokens."""
        threading.Thread(target=self._listen, daemon=True).start()

    def say(self, message: Json) -> SimpleQueue[Json] | None:
        """Sends a message; returns where what belongs to a request arrives, its answer last."""
        heard: SimpleQueue[Json] | None = None
        with self._lock:
            if "method" in message and "id" in message:
                heard = self._open[message["id"]] = SimpleQueue()
                token = ((message.get("params") or {}).get("_meta") or {}).get("progressToken")
                self._tokens[token] = message["id"]
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        return heard

    def is_open(self, number: Json) -> bool:
        """Whether a request of this ID waits for its answer."""
        with self._lock:
            return number in self._open

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            with self._lock:
                if "method" not in message:
                    heard = self._open.pop(message.get("id"), None)
                else:
                    number = self._tokens.get((message.get("params") or {}).get("progressToken"))
                    heard = self._open.get(number) or next(reversed(self._open.values()), None)
            if heard is not None:
                heard.put(message)
        with self._lock:
            for heard in self._open.values():
                heard.put(None)

    def finish(self) -> None:
        """Ends the input, as a host does."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # one that has ended by itself says so by its exit code
            self._process.stdin.close()

    def ended(self) -> int:
        """The exit code, for which it has 20 seconds."""
        return self._process.wait(20)


class Bridge(ThreadingHTTPServer):
    """Serves a command over HTTP."""

    daemon_threads = True

    def __init__(self, command: Sequence[str]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self._command = command
        self._processes: dict[str, Process] = {}
        self._shared: list[Process] = []
        self._ended: list[Process] = []
        self._lock = threading.Lock()

    def process(self, session: str | None, message: Json) -> tuple[str | None, Process | None]:
        """The session that a message belongs to, and its process; None: there is no such session any more."""
        with self._lock:
            if session is not None:
                return session, self._processes.get(session)
            if _VERSION in ((message.get("params") or {}).get("_meta") or {}):
                free = (one for one in self._shared if not one.is_open(message.get("id")))
                if (process := next(free, None)) is None:
                    process = Process(self._command)
                    self._shared.append(process)
                return None, process
            session = uuid.uuid4().hex
            self._processes[session] = Process(self._command)
            return session, self._processes[session]

    def forget(self, session: str) -> None:
        """Ends a session."""
        with self._lock:
            process = self._processes.pop(session)
            self._ended.append(process)
        process.finish()

    def codes(self) -> list[int]:
        """Ends what still runs; returns the exit codes of all processes."""
        running = (*self._processes.values(), *self._shared)
        for process in running:
            process.finish()
        return [process.ended() for process in (*self._ended, *running)]


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Bridge

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if urlsplit(f"//{self.headers['host']}").hostname not in {"127.0.0.1", "localhost"}:
            self._head(403)  # a page that has rebound its name to this address
            return
        session, process = self.server.process(self.headers[_SESSION], message)
        if process is None:
            self._head(404)
            return
        named = () if session is None else ((_SESSION, session),)
        heard = process.say(message)
        if heard is None:
            self._head(202, *named)
            return
        self._head(200, *named, ("content-type", "text/event-stream"), ("connection", "close"))
        while (said := heard.get()) is not None:
            self.wfile.write(b"event: message\ndata: " + json.dumps(said).encode() + b"\n\n")
            self.wfile.flush()
            if "method" not in said:
                return

    def do_GET(self) -> None:
        self._head(405)

    def do_DELETE(self) -> None:
        self.server.forget(self.headers[_SESSION])
        self._head(200)

    def _head(self, status: int, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if status != 200 or not headers:
            self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: standard error is the tests'."""


@contextmanager
def bridge(*command: str) -> Generator[str]:
    """The URL at which a command is served, for the length of a `with` block, in which no process of it may fail."""
    server = Bridge(command)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        codes = server.codes()
    assert set(codes) <= {0}, codes
