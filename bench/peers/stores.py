"""Agno's result store and Headroom, timed in this process: store, what the model reads instead, and a first search.

Runs in an environment of its own: python stores.py FOLDER; reads a JSON list of {"path", "needle"} and prints a list of
what each took.
"""

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

from agno.db.sqlite import SqliteDb
from agno.offload import ResultStore
from headroom.cache.compression_store import get_compression_store
from headroom.compress import compress


def main(folder: Path) -> None:
    """Measure every payload with both."""
    payloads = json.load(sys.stdin)
    agno, rows = ResultStore(db=SqliteDb(db_file=str(folder / "agno.db"))), []
    for number, payload in enumerate(payloads):
        text = Path(payload["path"]).read_text(encoding="utf-8")
        rows.append(_measured("agno", number, text, payload["needle"], lambda n, t: _agno_put(agno, n, t), agno.search))
        rows.append(_measured("headroom", number, text, payload["needle"], _headroom_put, _headroom_search))
    json.dump(rows, sys.stdout)


def _measured(
    store: str,
    number: int,
    text: str,
    needle: str,
    put: Callable[[int, str], tuple[str, str]],
    search: Callable[[str, str], object],
) -> dict[str, object]:
    clock, cpu = time.perf_counter(), time.process_time()
    key, shown = put(number, text)
    stored, spent = time.perf_counter(), time.process_time()
    found = search(key, needle)
    return {
        "store": store,
        "number": number,
        "put": stored - clock,
        "put_cpu": spent - cpu,
        "search": time.perf_counter() - stored,
        "shown": shown,
        "found": needle in str(found),
    }


def _agno_put(store: ResultStore, number: int, text: str) -> tuple[str, str]:
    shown = store.offload_for_model(
        session_id="bench", run_id="run", tool_call_id=f"call_{number}", tool_name="bash", tool_args={}, output=text
    )
    return re.search(r"res_\w+", shown)[0], shown


def _headroom_put(_number: int, text: str) -> tuple[str, str]:
    call = {"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Why did it fail?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": text},
        {"role": "user", "content": "Go on."},
    ]
    shown = compress(messages, model="gpt-4o", kompress_model="disabled").messages[2]["content"]
    marked = re.search(r"hash=(\w+)", shown)
    return marked[1] if marked else "", shown


def _headroom_search(key: str, needle: str) -> str | None:
    """Its retrieval gives the original back; what contains a word is looked for by the caller."""
    entry = get_compression_store().retrieve(key, needle)
    return (
        None if entry is None else next((line for line in entry.original_content.split("\n") if needle in line), None)
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
