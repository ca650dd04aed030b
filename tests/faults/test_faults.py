"""Each harness in its short form, and beside it the same harness on a service whose protection was removed."""

import json
import random
from pathlib import Path

import pytest

from faults import combos, injected_faults
from faults.fork_server import Nursery
from faults.harnesses import bitrot, clocks, diskfull, sweep, vanish

HERE = combos.EMBEDDED


def test_a_live_artifact_is_never_lost_to_sweeps_that_take_others_with_the_same_bytes(forks: Nursery) -> None:
    report = sweep.run(HERE, 150, 1, shared=forks)
    assert report.clean, report.line()
    assert report.counts["operations"] > 100


@pytest.mark.parametrize(("wrong", "operations"), [("no-share-check", 120), ("dead-revives", 300)])
def test_the_sweep_soak_notices_a_deletion_that_takes_what_others_share_and_a_dead_blob_that_is_used_again(
    forks: Nursery, wrong: str, operations: int
) -> None:
    # Whether a blob is used again in the second for which it is dead is up to the threads: a soak this short may miss
    # it once, hardly four times.
    reports = (sweep.run(HERE, operations, seed, [wrong], forks) for seed in range(1, 5))
    assert any(report.broken["lost"] + report.broken["missing"] > 0 for report in reports)


def test_a_flipped_bit_never_gives_a_wrong_byte_and_hurts_no_neighbour(forks: Nursery) -> None:
    report = bitrot.run(HERE, 12, 1, shared=forks)
    assert report.clean, report.line()
    assert report.counts["found by the check"] > 8


def test_without_the_frames_checksums_flipped_bits_are_read(forks: Nursery) -> None:
    report = bitrot.run(HERE, 10, 1, ["unverified"], forks)
    assert report.broken["no wrong byte in a range"] > 0, report.line()


def test_clients_that_vanish_leave_nothing_behind(forks: Nursery) -> None:
    report = vanish.run(HERE, 48, 1, shared=forks)
    assert report.clean, report.line()


def test_uploads_that_are_not_cleaned_up_after_are_noticed(forks: Nursery) -> None:
    report = vanish.run(HERE, 16, 1, ["no-undo"], forks, patience=1)
    assert report.broken["no descriptor is left"] > 0, report.line()


@pytest.mark.parametrize("limit", [False, True], ids=["disk", "limit"])
def test_a_full_disk_is_said_so_costs_nothing_acknowledged_and_passes_without_a_restart(
    capsys: pytest.CaptureFixture[str], limit: bool
) -> None:
    done = diskfull.with_disk([HERE, "--rounds", "1"], limit=limit)
    said = json.loads(done.stdout)
    if not said["counts"]["on a disk of its own"] and not limit:
        with capsys.disabled():
            print("no disk of its own: user namespaces are forbidden here, so that a limit on file sizes stands in")  # noqa: T201
    assert said["verdict"] == "held", done.stdout
    assert said["counts"]["refused"] >= 5


def test_clocks_that_jump_an_hour_take_nothing_that_should_live(forks: Nursery) -> None:
    report = clocks.run(HERE, 1, 1, shared=forks)
    assert report.clean, report.line()
    assert report.counts["uploads given up"] == 1


def test_without_the_fence_a_clock_that_jumps_leaves_an_artifact_without_bytes(forks: Nursery) -> None:
    report = clocks.run(HERE, 1, 1, ["no-fence"], forks)
    assert report.broken["an acknowledged upload is there"] > 0, report.line()


def test_a_wrong_that_is_unknown_is_refused() -> None:
    with pytest.raises(KeyError):
        injected_faults.inject(["no-such-wrong"])


def test_the_volatile_file_system_keeps_exactly_what_was_synced(tmp_path: Path) -> None:
    files = injected_faults.VolatileFileSystem()
    data = random.Random(1).randbytes(1000)
    for name in ("synced", "named", "neither"):
        fd = files.create(str(tmp_path / name))
        files.write(fd, memoryview(data))
        if name == "synced":
            files.sync(fd)
        files.close(fd)
        if name != "neither":
            files.sync_directory(str(tmp_path))
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"synced": data, "named": b""}
