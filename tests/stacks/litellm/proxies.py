"""A real LiteLLM proxy with the callback in its configuration, and an agent that knows nothing of Coatcheck.

The proxy takes seconds to start, so that one serves many tests: its models are where `Relay` leads at the moment.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import httpx

from support.http_server import QuietHandler, http_server

KEY: Final = "sk-coatcheck-tests"
CALLBACK: Final = """
from coatcheck_client import Client, Retries
from coatcheck_client.integrations.litellm import CoatcheckCallback

callback = CoatcheckCallback({client}, **{options})
"""
CONFIG: Final = """
model_list:
  - model_name: gpt-stub
    litellm_params: {{model: openai/gpt-stub, api_base: {relay}/v1, api_key: none}}
  - model_name: claude-stub
    litellm_params: {{model: anthropic/claude-stub, api_base: {relay}, api_key: none}}
general_settings: {{master_key: {key}}}
litellm_settings: {{callbacks: [{callbacks}], num_retries: 0}}
"""
WRITER: Final = """
import json
from litellm.integrations.custom_logger import CustomLogger

class Writer(CustomLogger):
    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        known = kwargs.get("standard_logging_object") or {}
        with open(FILE, "a") as file:
            file.write(json.dumps({"tokens": known.get("total_tokens"), "type": known.get("call_type")}) + chr(10))

writer = Writer()
"""


class Relay:
    """An address that does not change, and leads to `target`."""

    target = ""

    def __init__(self) -> None:
        """Serves from now on."""
        relay = self

        class Handler(QuietHandler):
            def do_POST(self) -> None:
                asked: Any = {"content": self.body(), "headers": {"content-type": "application/json"}}
                answer = httpx.post(relay.target + self.path, **asked)
                self.answer(answer.status_code, answer.content, answer.headers["content-type"])

        self._stack = contextlib.ExitStack()
        self.url = self._stack.enter_context(http_server(Handler))

    def close(self) -> None:
        """Ends it."""
        self._stack.close()


class Proxy:
    """A proxy that runs."""

    def __init__(self, url: str, relay: Relay, log: Path) -> None:
        """`log`: what was logged of its requests that succeeded."""
        self.url, self.relay, self._log = url, relay, log

    def output(self) -> str:
        """What it wrote to its terminal."""
        return (self._log.parent / "log").read_text()

    def logged(self) -> list[Any]:
        """What LiteLLM told its loggers."""
        return [json.loads(line) for line in self._log.read_text().splitlines()] if self._log.exists() else []


@contextlib.contextmanager
def proxy(folder: Path, client: str = "", files: dict[str, str] | None = None, **options: Any) -> Generator[Proxy]:
    """A proxy for the length of a `with` block.

    Args:
        folder: where its configuration is written.
        client: the expression that makes its client of Coatcheck.
        files: its configuration; by default the tests' own, with the callback made as this says.
        options: of the callback.
    """
    relay = Relay()
    log = folder / "logged.jsonl"
    own = {
        "coatcheck_proxy.py": CALLBACK.format(client=client, options=options),
        "config.yaml": CONFIG.format(relay=relay.url, key=KEY, callbacks="coatcheck_proxy.callback, writer.writer"),
    }
    written = {**(own if files is None else files), "writer.py": f"FILE = {str(log)!r}\n{WRITER}"}
    for name, text in written.items():
        (folder / name).write_text(text)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    command = [Path(sys.executable).parent / "litellm", "--config", folder / "config.yaml"]
    known = {name: os.environ[name] for name in ("PATH", "HOME", "COATCHECK_URL") if name in os.environ}
    known["LITELLM_MASTER_KEY"] = KEY
    env = {
        **known,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "OPENAI_API_BASE": f"{relay.url}/v1",
        "OPENAI_API_KEY": "none",
    }
    with (folder / "log").open("w") as output:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)], env=env, cwd=folder, stdout=output, stderr=output
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(url, process, folder / "log")
        yield Proxy(url, relay, log)
    finally:
        process.terminate()
        process.wait(30)
        relay.close()


def _wait_for(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    for _ in range(600):
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{url}/health/liveliness").status_code == 200:
                return
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError(f"the proxy did not start: {log.read_text()[-4_000:]}")
