"""How `coatcheck mcp-wrap` ends, what it does in an outage, and what it does to lines that no client would send."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from client.servers import answering
from coatcheck_client.integrations.mcp_wrap.messages import members
from integrations import mcp_server
from integrations.agents import NOBODY
from integrations.wrapped import COMMAND, ENVIRONMENT, SMALL_WRAP, WRAP, host, http_server, text_of
from support.service import Service

ECHO = "import sys\nfor line in sys.stdin.buffer: sys.stdout.buffer.write(line); sys.stdout.buffer.flush()"
Spoken = subprocess.Popen[bytes]


@pytest.fixture(params=[WRAP, SMALL_WRAP], ids=["cli", "client-only"])
def wrap(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Both ways to start it."""
    chosen: tuple[str, ...] = request.param
    return chosen


@contextmanager
def started(command: Sequence[str]) -> Generator[Spoken]:
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=ENVIRONMENT) as process:
        try:
            yield process
        finally:
            process.kill()


def ask(process: Spoken, method: str, params: dict[str, Any] | None = None, number: object = 1) -> dict[str, Any]:
    """Send a request, and wait for its answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}
    process.stdin.write(json.dumps(request).encode() + b"\n")
    process.stdin.flush()
    while True:
        answer: dict[str, Any] = json.loads(process.stdout.readline())
        if answer.get("id") == number:
            return answer


def hello(process: Spoken) -> None:
    assert process.stdin is not None
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "h", "version": "1"}}
    ask(process, "initialize", client)
    process.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    process.stdin.flush()


def gone(*numbers: int) -> bool:
    """Whether processes end. They may be zombies until somebody asks for them."""
    for _ in range(500):
        alive = [one for one in numbers if psutil.pid_exists(one) and psutil.Process(one).status() != "zombie"]
        if not alive:
            return True
        time.sleep(0.02)
    return False


def close(process: Spoken) -> None:
    assert process.stdin is not None
    process.stdin.close()


ENDINGS: dict[str, tuple[Callable[[Spoken], None], int]] = {
    "end-of-input": (close, 0),
    "sigterm": (lambda process: process.send_signal(signal.SIGTERM), 128 + signal.SIGTERM),
    "ctrl-c": (lambda process: process.send_signal(signal.SIGINT), 128 + signal.SIGINT),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_however_it_ends_nothing_that_it_started_is_left(ending: str, wrap: tuple[str, ...], service: Service) -> None:
    end, code = ENDINGS[ending]
    with started((*wrap, "--url", service.url, *COMMAND)) as process:
        hello(process)
        spawned = ask(process, "tools/call", {"name": "spawn", "arguments": {}}, 2)
        child, server = map(int, spawned["result"]["content"][0]["text"].split())
        end(process)
        assert process.wait(30) == code
        assert gone(child, server)


def test_a_server_that_ignores_the_end_of_its_input_and_sigterm_is_ended(service: Service, tmp_path: Path) -> None:
    stubborn = "import os, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    stubborn += f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()) + ' '); time.sleep(600)"
    with started((*WRAP, "--url", service.url, "--", sys.executable, "-c", stubborn)) as process:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().endswith(" "):
            time.sleep(0.02)
        close(process)
        assert process.wait(30) == 0
        assert gone(int((tmp_path / "pid").read_text()))


def test_a_server_that_ends_passes_its_exit_code_and_its_last_words_on(wrap: tuple[str, ...], service: Service) -> None:
    with started((*wrap, "--url", service.url, *COMMAND)) as process:
        hello(process)
        assert process.stdin is not None
        call = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "die", "arguments": {"code": 7}}}
        process.stdin.write(json.dumps(call).encode() + b"\n")
        process.stdin.flush()
        assert process.wait(30) == 7
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read() == b"", "the host sees the end"
        assert b"the server gives up" in process.stderr.read()


def test_a_command_that_cannot_be_started_is_said_so(wrap: tuple[str, ...]) -> None:
    done = subprocess.run([*wrap, "--", "/no/such/server"], env=ENVIRONMENT, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"No such file or directory" in done.stderr


def test_what_was_asked_before_the_end_of_the_input_is_answered(service: Service) -> None:
    said = (
        'print(\'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"\' + "long " * 9000 + \'"}]}}\')'
    )
    call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}\n'
    server = f"import sys; sys.stdin.readline(); {said}"
    command = [*WRAP, "--url", service.url, "--", sys.executable, "-c", server]
    done = subprocess.run(command, input=call, env=ENVIRONMENT, capture_output=True, check=True)
    assert json.loads(done.stdout)["result"]["content"][0]["text"].startswith("[art_")


LINES = [
    b"no JSON at all",
    b'[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]',
    b'{"jsonrpc":"2.0","id":[1],"method":"tools/call","params":[1]}',
    b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"}]}}',
    b'{"jsonrpc":"2.0","method":7,"id":{}}',
    b'{"id":12345678901234567890123,"x":1.10,"s":"\\ud800"}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}',
    b"\xff\xfe" + b"x" * 3_000_000,
]


def test_lines_that_it_need_not_change_pass_byte_for_byte(service: Service) -> None:
    command = [*WRAP, "--url", service.url, "--", sys.executable, "-c", ECHO]
    given = b"\n".join(LINES) + b"\n"
    done = subprocess.run(command, input=given, env=ENVIRONMENT, capture_output=True, check=True)
    assert done.stdout == given


def test_a_name_that_is_not_utf8_makes_a_line_no_message() -> None:
    assert members(b'{"\xff": 1}') is None
    assert members(b'{"id": "\xff"}') is not None


def test_halves_of_surrogate_pairs_and_large_numbers_do_not_keep_a_result_large(service: Service) -> None:
    result = b'{"jsonrpc":"2.0","id":"a","result":{"content":[{"type":"text","text":"%s \\ud800"}],"_meta":{"n":%d}}}'
    line = result % (b"word " * 4_000, 10**30)
    server = f"import sys; sys.stdin.readline(); sys.stdout.buffer.write({line!r} + bytes([10]))"
    call = b'{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"t"}}\n'
    command = [*WRAP, "--url", service.url, "--", sys.executable, "-c", server]
    done = subprocess.run(command, input=call, env=ENVIRONMENT, capture_output=True, check=True)
    answer = json.loads(done.stdout)
    assert answer["result"]["content"][0]["text"].startswith("[art_")
    assert answer["result"]["_meta"] == {"n": 10**30}


@contextmanager
def silent() -> Generator[str]:
    """A service that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@contextmanager
def refusing() -> Generator[str]:
    """A service that refuses whatever it is asked."""
    with answering(403, b'{"code":"forbidden","detail":"No."}') as seen:
        yield seen.url


@contextmanager
def stopped() -> Generator[str]:
    """No service."""
    yield NOBODY


@pytest.mark.parametrize("outage", [stopped, silent, refusing])
async def test_in_an_outage_the_original_goes_through(outage: Any) -> None:  # noqa: ANN401 - a context manager
    with outage() as url:
        async with host(*WRAP, "--url", url, *COMMAND) as client:
            assert [tool.name for tool in (await client.list_tools()).tools][-1] == "read_artifact"
            result = await client.call_tool("log")
            assert (text_of(result), result.structured_content) == (mcp_server.LOG, {"result": mcp_server.LOG})
            mixed = await client.call_tool("mixed")
            assert len(mixed.content) == 6
            read = await client.call_tool("read_artifact", {"artifact_id": "art_000000000000000001"})
            assert (read.is_error, "cannot answer now" in text_of(read)) == (True, True)
            assert text_of(await client.call_tool("small")) == "fine"


async def test_a_server_over_http_that_is_away_is_an_error_of_each_request(service: Service, tmp_path: Path) -> None:
    with http_server(tmp_path / "log") as address:
        pass
    with started((*WRAP, "--url", service.url, address)) as process:
        for number in (1, 2):
            said = ask(process, "tools/call", {"name": "small"}, number)["error"]["message"]
            assert said.startswith(f"{address} cannot be reached: ")
        close(process)
        assert process.wait(30) == 0
