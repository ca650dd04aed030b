"""The same history posted again finds what is there: same IDs, same bytes, nothing stored twice."""

from pathlib import Path

from support import payloads
from support.combos import Combo
from support.service import checked, serving


def kept(data: Path, combo: Combo) -> tuple[int, int, int]:
    """How many blobs there are, bytes of content in them, and names in the store."""
    said = checked(data, combo)
    assert (said["clean"], said["findings"]) == (True, [])
    return said["blobs"], said["content"], said["stored"]


def test_a_hundred_replays_of_a_history_give_the_same_ids_and_cards_and_store_nothing_twice(
    combo: Combo, tmp_path: Path
) -> None:
    history = [
        ("bash", "call_1", payloads.import_log()),
        ("bash", "call_2", payloads.lock_file()),
        ("read_file", "call_3", payloads.lock_file()),
        ("read_file", "call_4", payloads.largest(".js", at_most=300_000)[1]),
        ("bash", "call_5", b"ok\n"),
    ]
    with serving(tmp_path / "data", combo) as service:

        def replay() -> list[tuple[str, str]]:
            receipts = [
                service.post(payload, tool_name=tool, tool_call_id=call, session="s1")
                for tool, call, payload in history
            ]
            return [(r["id"], r["text"]) for r in receipts]

        first = replay()
        before = kept(tmp_path / "data", combo)
        assert all(replay() == first for _ in range(99))
        assert kept(tmp_path / "data", combo) == before
        listed = service.get("/v1/artifacts", session="s1", limit=200)
        assert [a["id"] for a in listed["items"]] == [i for i, _ in reversed(first)]
        assert len({i for i, _ in first}) == len(history)
    with serving(tmp_path / "data", combo) as restarted:
        service = restarted
        assert replay() == first
