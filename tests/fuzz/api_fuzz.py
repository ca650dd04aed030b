"""Requests that schemathesis makes up from the OpenAPI document, sent to a service of its own.

python tests/fuzz/api_fuzz.py --cases 10000

Prints what schemathesis prints and ends with its code: 0 when every answer was one that the document describes.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from support.service import Service, serving

SETTINGS: Final = Path(__file__).with_name("schemathesis.toml")
HOOKS: Final = Path(__file__).with_name("api_hooks.py")
NOT_CHECKED: Final = "positive_data_acceptance"
"""That the service takes whatever the schemas allow: they cannot say that two fields exclude each other, that a body
is coded as its header says, or that an ID has its check digit."""
LINES: Final = "".join(f'{{"line": {n}, "level": "error", "text": "step {n} failed"}}\n' for n in range(3000))


@dataclass(frozen=True)
class Target:
    """A service, where the report goes, and the document to read instead of its own."""

    service: Service
    folder: Path
    document: str | None = None


def prepare(service: Service) -> dict[str, Any]:
    """Store an artifact that nothing removes, and make two keys; from then on every request needs one."""
    artifact = service.post(LINES, tool_name="bash", title="A log")["id"]
    held = service.client.post("/v1/admin/holds", json={"artifact": artifact, "reason": "what requests are about"})
    assert held.status_code == 201, held.text
    keys: dict[str, str] = {}
    headers: dict[str, str] = {}
    for name, namespace, scopes in (
        ("everything", "*", ["admin"]),
        ("tenant", "default", ["ingest", "read", "delete", "admin"]),
    ):
        body = {"name": name, "namespace": namespace, "scopes": scopes}
        answer = service.client.post("/v1/admin/keys", json=body, headers=headers)
        assert answer.status_code == 201, answer.text
        keys[name] = answer.json()["key"]
        headers = {"authorization": f"Bearer {keys['everything']}"}
    return {"artifact": artifact, "hold": held.json()["id"], "keys": keys}


def fuzz(target: Target, *phases: str, examples: int, seed: int) -> subprocess.CompletedProcess[str]:
    """Run phases of schemathesis with at most `examples` cases of fuzzing per operation; writes `report.json`."""
    state, folder = prepare(target.service), target.folder
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(SETTINGS), "run"]
    command += ["--phases", ",".join(phases), "--max-examples", str(examples), "--seed", str(seed)]
    command += ["--checks", "all", "--exclude-checks", NOT_CHECKED, "--continue-on-failure", "--no-color"]
    command += ["--generation-with-security-parameters", "false", "--generation-database", "none"]
    command += ["--report", "json", "--report-json-path", str(folder / "report.json"), "--request-timeout", "60"]
    document = target.document or f"{target.service.url}/v1/openapi.json"
    return subprocess.run(
        [*command, "--url", target.service.url, document],
        cwd=folder,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(folder),
            "SCHEMATHESIS_HOOKS": str(HOOKS),
            "COATCHECK_FUZZ": json.dumps(state),
        },
        capture_output=True,
        text=True,
        check=False,
    )


def main() -> None:
    """Run every phase, with a number of cases of fuzzing in all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made, serving(Path(made) / "data") as service:
        operations = sum(
            len(item.keys() - {"parameters"}) for item in service.get("/v1/openapi.json")["paths"].values()
        )
        phases = ("examples", "coverage", "fuzzing", "stateful")
        done = fuzz(Target(service, Path(made)), *phases, examples=-(-given.cases // operations), seed=given.seed)
        sys.stdout.write(done.stdout + done.stderr)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
