"""`make bench`, or `make bench ARGS="throughput"` for some of it."""

import sys

from bench import (
    cards,
    compact,
    evidence,
    expiry,
    full_text,
    ingest,
    json_path,
    kinds,
    large,
    passages,
    ranges,
    redaction,
    retention,
    saturation,
    search_results,
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
    "ingest": ingest.run,
    "evidence": evidence.run,
    "large": large.run,
    "json_path": json_path.run,
    "expiry": expiry.run,
    "retention": retention.run,
    "search_results": search_results.run,
    "compact": compact.run,
    "windows": passages.run,
    "tool_calls": tool_calls.run,
    "kinds": kinds.run,
    "full_text": full_text.run,
    "redaction": redaction.run,
}


def main() -> None:
    """Run the parts that are named, or all."""
    wanted = sys.argv[1:] or list(PARTS)
    unknown = set(wanted) - set(PARTS)
    if unknown:
        sys.exit(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    for name in wanted:
        print(f"\n== {name}", flush=True)
        PARTS[name]()


if __name__ == "__main__":
    main()
