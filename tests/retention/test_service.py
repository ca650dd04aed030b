"""Retention as an administrator meets it: over HTTP and on the command line, also when the service is killed."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

from coatcheck.adapters.sql.sqlite.store import SqliteCatalog
from coatcheck.core import ids
from coatcheck.core.artifact import DeclaredMetadata
from contract.sample_changes import number_of, store
from support.service import COMMAND, Service, serving, start

_PARTS = 6


def _run(service: Service, *arguments: str) -> tuple[int, str]:
    """Exit code of a command, and what it said."""
    env = {"PATH": "/usr/bin:/bin", "COATCHECK_URL": service.url}
    done = subprocess.run([*COMMAND, *arguments], env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def _json(service: Service, *arguments: str) -> Any:  # noqa: ANN401 - JSON
    code, said = _run(service, *arguments, "--json")
    assert code == 0, said
    return json.loads(said)


def test_a_tired_person_plans_applies_undoes_and_looks_it_up(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as service:
        posted = sorted(service.post(f"output {n}\n", session="s")["id"] for n in range(3))
        for n in range(4):
            service.post(f"other {n}\n" * 100)
        code, said = _run(service, "retention", "plan", "session", "--namespace", "default", "--session", "s")
        assert (code, "WILL REMOVE 3 of 7 artifacts" in said) == (0, True), said
        digest = said.rpartition("apply ")[2].split()[0]
        assert len(digest) == 64
        code, said = _run(service, "retention", "apply", digest)
        assert (code, "Removed 3 of the 3 planned artifacts" in said) == (0, True), said
        (run,) = _json(service, "retention", "runs")["items"]
        code, said = _run(service, "retention", "apply", digest)
        assert (code, "[plan_changed]" in said) == (2, True), said
        assert _json(service, "retention", "undo", "--run", run["id"])["restored"] == posted
        assert [service.content(each) for each in posted] != []
        code, said = _run(service, "retention", "undo", "--run", run["id"])
        assert (code, said.startswith("Nothing to bring back")) == (1, True), said
        removed, restored = [
            {
                each
                for line in _json(service, "audit", "list", "--action", action)["items"]
                for each in line["artifacts"]
            }
            for action in ("artifact.removed", "artifact.restored")
        ]
        assert removed == restored == set(posted)
        code, said = _run(service, "retention", "job", "sweep", "--pause")
        assert (code, said) == (0, "sweep is paused.\n")
        assert "PAUSED by local" in _run(service, "retention", "status")[1]
        code, said = _run(service, "retention", "plan", "evict", "--namespace", "default")
        assert (code, "needs a target" in said) == (2, True), said
        code, said = _run(service, "retention", "runs", "run_none")
        assert code == 3, said


def _applied(service: Service, job: str, *more: str) -> Any:  # noqa: ANN401 - JSON
    """The run of a job that was planned just now."""
    plan = _json(service, "retention", "plan", job)
    code, said = _run(service, "retention", "apply", plan["digest"], *more, "--json")
    run = json.loads(said)
    assert code == (1 if run["items"] else 0)  # findings
    return run


def test_bytes_that_rot_are_found_by_a_run_and_what_they_were_is_removed_by_another(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(data) as service:
        whole = service.post("line of a log\n" * 30_000, tool_call_id="a")["id"]
        rotten = service.post("".join(f"{n * n}\n" for n in range(60_000)), tool_call_id="b")["id"]
        for job in ("verify", "storage"):
            run = _applied(service, job)
            assert (run["outcome"], run["artifacts"], run["items"]) == ("finished", 0, 0), run
        blob = max(
            (each for each in (data / "blobs").rglob("*") if each.is_file()), key=lambda each: each.stat().st_size
        )
        content = bytearray(blob.read_bytes())
        content[len(content) // 3] ^= 0xFF
        blob.write_bytes(content)
        run = _applied(service, "verify")
        assert (run["outcome"], run["artifacts"], run["items"]) == ("finished", 0, 1), run
        found = service.client.get(f"/v1/artifacts/{rotten}/search", params={"pattern": "no such line"})
        assert found.status_code >= 400, found.text  # whoever reads it marks it as lost
        run = _applied(service, "lost", "--confirm")
        assert (run["outcome"], run["artifacts"]) == ("finished", 1), run
        assert service.client.get(f"/v1/artifacts/{rotten}").status_code == 410
        assert service.content(whole) == b"line of a log\n" * 30_000
        (line,) = _json(service, "audit", "list", "--action", "artifact.removed")["items"]
        assert line["artifacts"] == [rotten]


async def _filled(path: Path, count: int) -> list[int]:
    catalog = SqliteCatalog.open(path)
    changes = [
        store(b"%d\n" % n, namespace="default", said=DeclaredMetadata(session="s", tool_call_id=f"c{n}"))
        for n in range(count)
    ]
    await asyncio.gather(*(catalog.commit(change) for change in changes))
    catalog.close()
    return [number_of(change) for change in changes]


def test_a_run_that_is_killed_again_and_again_removes_everything_once(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(data):
        pass  # it makes its store
    numbers = asyncio.run(_filled(data / "coatcheck.db", 500 * _PARTS))
    service = start(data)
    asked = {"job": "session", "namespace": "default", "session": "s"}
    plan = service.client.post("/v1/admin/retention/plan", json=asked).json()
    assert plan["artifacts"] == len(numbers)
    body = {"digest": plan["digest"], "confirm": True, "wait": 0}
    run = service.client.post("/v1/admin/retention/apply", json=body).json()
    kills = 0
    while run["outcome"] == "running":
        if kills < 3 and run["artifacts"] < 500 * (_PARTS - 1):
            service.kill()
            kills += 1
            service = start(data)
        run = service.get(f"/v1/admin/retention/runs/{run['id']}")
    try:
        assert (run["outcome"], run["artifacts"], kills > 0) == ("finished", len(numbers), True)
        told: list[str] = []
        before: dict[str, int] = {}
        while True:
            page = service.get("/v1/admin/audit", action="artifact.removed", limit=200, **before)
            told += [each for line in page["items"] for each in line["artifacts"]]
            if page["next"] is None:
                break
            before = {"before": page["next"]}
        assert sorted(told) == sorted(map(ids.render, numbers))
    finally:
        assert service.stop() == 0
