"""Start the service as a user does, in a process of its own, and talk to it over HTTP."""

import contextlib
import json
import re
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from support.combos import EMBEDDED, Combo

COMMAND = (sys.executable, "-m", "coatcheck")
RESERVE = 2**20
"""Bytes of the disk that each of hundreds of services reserves, instead of the usual."""


@dataclass(frozen=True)
class Service:
    """A running service."""

    url: str
    data: Path
    process: subprocess.Popen[str]
    client: httpx.Client

    def post(self, content: bytes | str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        """Post a payload, as JSON when it is text and raw when it is bytes; answer the receipt."""
        if isinstance(content, str):
            response = self.client.post("/v1/artifacts", json={"content": content, **fields})
        else:
            headers = {"content-type": str(fields.pop("media_type", "application/octet-stream"))}
            response = self.client.post(
                "/v1/artifacts/raw", params={"allow_empty": "true", **fields}, headers=headers, content=content
            )
        assert response.status_code in {200, 201}, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def get(self, path: str, **params: Any) -> Any:  # noqa: ANN401 - JSON
        """Get a JSON answer."""
        response = self.client.get(path, params=params)
        assert response.status_code == 200, response.text
        return response.json()

    def read(self, artifact_id: str, **arguments: object) -> str:
        """The text with which the tool `read_artifact` answers."""
        call = {"name": "read_artifact", "arguments": {"artifact_id": artifact_id, **arguments}}
        response = self.client.post("/v1/tools/call", json=call)
        assert response.status_code == 200, response.text
        text: str = response.json()["text"]
        return text

    def content(self, artifact_id: str, view: str = "raw") -> bytes:
        """The stored payload, or another view of it."""
        response = self.client.get(f"/v1/artifacts/{artifact_id}/content", params={"view": view})
        assert response.status_code == 200, response.text
        return response.content

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        host, port = self.url.removeprefix("http://").split(":")
        return host, int(port)

    def gauge(self, name: str) -> float:
        """The present value of a metric without labels."""
        lines = self.client.get("/metrics").text.splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))

    def stop(self) -> int:
        """Ask it to stop, wait for its exit code, and let go of everything."""
        self.process.send_signal(signal.SIGTERM)
        return self._ended()

    def kill(self) -> None:
        """End it as a crash would, and let go of everything."""
        self.process.kill()
        self._ended()

    def _ended(self) -> int:
        code = self.process.wait(30)
        self.client.close()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


def start(
    data: Path,
    *,
    command: Sequence[str] = COMMAND,
    settings: Mapping[str, int | str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Service:
    """Start the service on a free port and wait until it says where it listens."""
    env = {"PATH": "/usr/bin:/bin", "PYTHONUNBUFFERED": "1", **(environment or {})}
    env |= {
        f"COATCHECK_{name.upper()}": str(value)
        for name, value in {"reserve_bytes": RESERVE, **(settings or {})}.items()
    }
    log = (data.parent / f"{data.name}.log").open("a")
    process = subprocess.Popen(
        [*command, "serve", "--port", "0", "--data", str(data)], stdout=subprocess.PIPE, stderr=log, text=True, env=env
    )
    log.close()
    assert process.stdout is not None
    first = process.stdout.readline()
    found = re.search(r"http://\S+?:\d+", first)
    if found is None:
        process.kill()
        process.wait()
        raise AssertionError(f"the service did not start: {first}{Path(log.name).read_text()}")
    url = found[0]
    client = httpx.Client(base_url=url, timeout=60, trust_env=False)
    deadline = httpx.Client(transport=httpx.HTTPTransport(retries=10), base_url=url, trust_env=False)
    with deadline:
        deadline.get("/health/ready")
    return Service(url, data, process, client)


def checked(data: Path, combo: Combo) -> dict[str, Any]:
    """What `coatcheck check` says of a store, whoever serves it at the moment."""
    env = {"PATH": "/usr/bin:/bin", **combo.environment}
    env |= {f"COATCHECK_{name.upper()}": value for name, value in combo.settings.items()}
    done = subprocess.run([*COMMAND, "check", "--json", "--data", str(data)], env=env, capture_output=True, check=False)
    assert done.returncode in {0, 1}, done.stderr.decode()
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@contextlib.contextmanager
def serving(
    data: Path, combo: Combo | None = None, *, command: Sequence[str] = COMMAND, **settings: int | str
) -> Generator[Service]:
    """A service for the length of a `with` block; it must stop cleanly. Without a combo the store is embedded."""
    combo = combo or Combo(EMBEDDED)
    service = start(data, command=command, settings={**combo.settings, **settings}, environment=combo.environment)
    try:
        yield service
    finally:
        code = service.stop()
    assert code == 0, f"the service ended with {code}"
