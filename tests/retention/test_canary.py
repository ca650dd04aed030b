"""What was deleted is in no file of the data directory once its grace has passed, whatever it was stored as."""

import random
import time
from pathlib import Path

from support.service import Service, serving

_PATIENCE = 60.0
"""Seconds; the sweep comes every second here."""


def _traces(data: Path, canary: str) -> dict[str, int]:
    """In which files of the directory a word is, in any case of letters, and how often."""
    needle = canary.encode()
    found = {
        str(path.relative_to(data)): path.read_bytes().lower().count(needle)
        for path in sorted(data.rglob("*"))
        if path.is_file()
    }
    return {name: count for name, count in found.items() if count}


def _stored(service: Service, canary: str) -> list[str]:
    """Payloads of every placement and kind of view, said to be about the canary."""
    rng = random.Random(11)
    filler = rng.randbytes(300_000).hex()
    about = {"session": "s", "title": f"about {canary}", "url": f"https://example.org/{canary}"}
    page = f"<html><head><title>{canary}</title></head><body><h1>{canary}</h1><p>{'word ' * 400}</p></body></html>"
    inline = service.post(f"a log\n{canary}\n", **about, labels=[canary], tool_call_id=f"call-{canary}")
    large = service.post(f"{canary}\n{filler}\n{canary}\n", **about)
    html = service.post(page, **about, media_type="text/html")
    service.get("/v1/artifacts", q=canary)  # it is indexed
    return [inline["id"], large["id"], html["id"]]


def test_after_deletion_and_sweep_no_file_of_the_data_directory_has_a_trace(tmp_path: Path) -> None:
    data = tmp_path / "data"
    canary = "kanarie" + random.Random(7).randbytes(9).hex()
    with serving(data, sweep_seconds=1, grace_seconds=1) as service:
        deleted = _stored(service, canary)
        kept = service.post("something else\n", session="t")["id"]
        expired = service.post(f"short lived {canary}\n", ttl=1, title=canary)["id"]
        assert _traces(data, canary) != {}
        plan = service.client.post(
            "/v1/admin/retention/plan", json={"job": "session", "namespace": "default", "session": "s"}
        ).json()
        assert plan["artifacts"] == 3
        applied = {"digest": plan["digest"], "confirm": True, "wait": 30}
        run = service.client.post("/v1/admin/retention/apply", json=applied).json()
        assert (run["outcome"], run["artifacts"]) == ("finished", 3)
        end = time.monotonic() + _PATIENCE
        while (left := _traces(data, canary)) and time.monotonic() < end:
            # Nothing to wait for but the sweep: each look takes its own time, and a request.
            service.get("/v1/admin/retention/status")
        assert left == {}
        for gone in (*deleted, expired):
            assert service.client.get(f"/v1/artifacts/{gone}").status_code == 410
        assert service.content(kept) == b"something else\n"
        log = (tmp_path / "data.log").read_text().lower()
        assert canary not in log
