"""`make bench`, or `make bench ARGS="throughput"` for some of it."""

import sys

from bench import durable, expiry, json_path, ranges, streams, throughput, windows

PARTS = {
    "throughput": throughput.run,
    "streams": streams.run,
    "ranges": ranges.run,
    "durable": durable.run,
    "json_path": json_path.run,
    "expiry": expiry.run,
    "windows": windows.run,
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
