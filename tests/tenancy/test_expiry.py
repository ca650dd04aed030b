"""Expiry to the microsecond, on every operation of the OpenAPI document that leads to an artifact."""

import json
from datetime import timedelta

from coatcheck.api.app import document
from support.clock import INSTANT
from tenancy.probes import ARTIFACT, PROBES, WITHOUT, put
from tenancy.tenants import House

LIFE = timedelta(seconds=100)
CHANGING = {"changeArtifact", "deleteArtifact", "deleteSession"}


def test_every_operation_has_its_probes_or_says_why_it_has_none() -> None:
    named = {
        operation["operationId"]
        for path, item in json.loads(document())["paths"].items()
        for method, operation in item.items()
        if method != "parameters" and not path.startswith("/v1/admin/")  # those are in test_admin_isolation
    }
    assert named | {"mcp"} == ARTIFACT.keys() | WITHOUT.keys()
    assert not ARTIFACT.keys() & WITHOUT.keys()


async def test_an_artifact_is_there_until_its_last_moment_and_gone_from_then_on_whoever_asks_how(
    harness: House,
) -> None:
    wrong: list[str] = []
    for number, (operation, probe) in enumerate(PROBES):
        client = await harness.tenant(f"n{number}")
        target = await put(client, f"run-{number}", f"call-{number}")
        harness.clock.forward(LIFE - INSTANT)
        before = await probe.send(client, target)
        if not probe.shows(before):
            wrong.append(f"{operation}: {probe.name} a moment before: {before.status_code} {before.text[:300]}")
        if operation in CHANGING:  # it may be gone already, or live longer now
            target = await put(client, f"run-{number}", f"call-{number}-again")
            harness.clock.forward(LIFE - INSTANT)
        harness.clock.forward(INSTANT)
        after = await probe.send(client, target)
        if probe.shows(after):
            wrong.append(f"{operation}: {probe.name} at its end: {after.status_code} {after.text[:300]}")
        if f"/{target.id}" in probe.path(target):
            assert after.status_code == 410, (operation, probe.name, after.text)
    assert wrong == []
