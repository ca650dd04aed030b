"""Wrong settings are refused before they cost a byte, and a switch from files to S3 loses nothing."""

import contextlib
import random
import subprocess
from pathlib import Path

import pytest

from support.combos import EMBEDDED, POSTGRES, S3, Combo, fresh_combo
from support.s3 import shared_s3
from support.service import COMMAND, checked, serving


def noise(size: int) -> bytes:
    """Bytes that do not compress."""
    return random.Random(size).randbytes(size)


def told(combo: Combo, data: Path, *words: str) -> tuple[int, str]:
    """A command's exit code, and what it says of errors."""
    env = {"PATH": "/usr/bin:/bin", **combo.environment}
    env |= {f"COATCHECK_{name.upper()}": value for name, value in combo.settings.items()}
    done = subprocess.run(
        [*COMMAND, *words, "--data", str(data)], env=env, capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stderr


def test_a_replica_with_a_directory_of_its_own_does_not_start_and_costs_nothing(tmp_path: Path) -> None:
    with fresh_combo(POSTGRES) as combo, serving(tmp_path / "shared", combo) as first:
        artifact = first.post(noise(200_000))["id"]
        for words in (("serve", "--port", "0"), ("check", "--apply")):
            code, said = told(combo, tmp_path / "apart", *words)
            assert (code != 0, "not where this database keeps its bytes" in said) == (True, True), said
        with serving(tmp_path / "shared", combo) as second:
            assert second.content(artifact) == noise(200_000)
        assert first.content(artifact) == noise(200_000)


def test_a_check_with_another_database_removes_nothing_from_a_bucket(tmp_path: Path) -> None:
    with fresh_combo(S3) as combo, fresh_combo(POSTGRES) as wrong, serving(tmp_path / "data", combo) as service:
        artifact = service.post(noise(200_000))["id"]
        mixed = Combo(S3, {**combo.settings, **wrong.settings}, combo.environment)
        for words in (("check", "--apply", "--orphan-age", "0"), ("serve", "--port", "0")):
            code, said = told(mixed, tmp_path / "scratch", *words)
            assert (code != 0, "the bytes of the database" in said) == (True, True), said
        assert service.content(artifact) == noise(200_000)


def test_files_stay_readable_and_are_swept_after_a_switch_to_s3(tmp_path: Path) -> None:
    server, data = shared_s3(), tmp_path / "data"
    with fresh_combo(POSTGRES) as before:
        with serving(data, before, sweep_seconds=1) as service:
            old, doomed = service.post(noise(200_000))["id"], service.post(noise(200_001))["id"]
        after = Combo(S3, {**before.settings, "blob_url": server.url()}, server.environment)
        with serving(tmp_path / "scratch", after, sweep_seconds=1) as service:
            answer = service.client.get(f"/v1/artifacts/{old}/content")
            assert (answer.status_code, answer.json()["code"]) == (503, "storage_unavailable")
        assert "has kept bytes as files" in (tmp_path / "scratch.log").read_text()
        with serving(data, after, grace_seconds=0, sweep_seconds=1) as service:
            new = service.post(noise(200_002))["id"]
            assert [service.content(a) for a in (old, doomed, new)] == [noise(200_000 + n) for n in range(3)]
            assert service.client.delete(f"/v1/artifacts/{doomed}").status_code < 300
            files = data / "blobs"
            while len([p for p in files.rglob("*") if p.is_file()]) > 1:
                service.get("/health/live")
        code, why = told(before, data, "serve", "--port", "0")
        assert (code != 0, "COATCHECK_BLOB_URL is not set" in why) == (True, True), "a forgotten setting"
        said = checked(data, after)
        assert (said["clean"], said["blobs"], said["stored"], said["findings"]) == (True, 2, 2, [])


@pytest.mark.parametrize("words", [("serve", "--port", "0"), ("check",), ("backup", "copy")], ids=lambda w: w[0])
def test_an_embedded_store_whose_database_was_swapped_is_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    combo = Combo(EMBEDDED)
    with serving(tmp_path / "one", combo) as service:
        service.post(noise(200_000))
    with serving(tmp_path / "two", combo):
        pass
    for name in ("coatcheck.db", "coatcheck.db-wal", "coatcheck.db-shm"):
        with contextlib.suppress(FileNotFoundError):
            (tmp_path / "one" / name).unlink()
    (tmp_path / "two" / "coatcheck.db").rename(tmp_path / "one" / "coatcheck.db")
    words = tuple(str(tmp_path / word) if word == "copy" else word for word in words)
    code, said = told(combo, tmp_path / "one", *words)
    assert (code != 0, "the bytes of the database" in said) == (True, True), said
    assert not (tmp_path / "copy").exists()
