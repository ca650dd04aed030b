"""`make bench`, or `make bench ARGS="throughput"` for some of it."""

import argparse
from functools import partial
from pathlib import Path

from bench import (
    cards,
    compact,
    compact_memory,
    connections,
    embedded,
    evidence,
    expiry,
    full_text,
    ingest,
    json_path,
    kinds,
    large,
    offloading,
    page,
    passages,
    peers,
    ranges,
    redaction,
    replay,
    retention,
    saturation,
    search_results,
    steady,
    streams,
    throughput,
    tool_calls,
)

PARTS = {
    "cards": cards.run,
    "throughput": throughput.run,
    "streams": streams.run,
    "ranges": ranges.run,
    "saturation": saturation.run,
    "connections": connections.run,
    "embedded": embedded.run,
    "steady": steady.run,
    "ingest": ingest.run,
    "evidence": evidence.run,
    "large": large.run,
    "json_path": json_path.run,
    "expiry": expiry.run,
    "retention": retention.run,
    "search_results": search_results.run,
    "compact": compact.run,
    "compact_memory": compact_memory.run,
    "replay": replay.run,
    "windows": passages.run,
    "tool_calls": tool_calls.run,
    "kinds": kinds.run,
    "full_text": full_text.run,
    "redaction": redaction.run,
    "page": page.run,
    "peers": peers.run,
    "offloading": offloading.run,
}


def main() -> None:
    """Run the parts that are named, or all."""
    parser = argparse.ArgumentParser(prog="bench")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument(
        "--transcripts", type=Path, metavar="DIR", help="Conversations to replay: JSON files of messages."
    )
    parser.add_argument("--puts", type=int, default=100_000, metavar="N", help="Payloads that `steady` puts (100000).")
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    parts = PARTS | {
        "replay": partial(replay.run, options.transcripts),
        "steady": partial(steady.run, options.puts),
    }
    for name in options.parts or list(PARTS):
        print(f"\n== {name}", flush=True)
        parts[name]()


if __name__ == "__main__":
    main()
