import random

import pytest

from coatcheck.core.grep.matcher import WORST_SECONDS, LineHit, Pattern, PatternScan, ScanPosition, compile_pattern

R = random.Random(77)


def _line(size: int) -> bytes:
    words = [b"foo", b"bar ", b"needle12", b"x", b".", b"1234567", "é".encode(), b"   "]
    return b"".join(R.choice(words) for _ in range(size // 4))[:size]


TEXTS = {
    "one long line": _line(1_500_000),
    "long lines among short ones": b"\n".join(_line(R.choice([0, 5, 60, 1_999, 2_001, 400_000])) for _ in range(9)),
    "many short lines": b"\n".join(_line(R.randrange(90)) for _ in range(8_000)) + b"\n",
}
PATTERNS = [r"needle\d+", r"\bfoo\b", "^bar", "x$", r"(foo|bar )+", "zzz"]


def scan(
    data: bytes,
    pattern: str | Pattern,
    block: int,
    *,
    skip: int = 0,
    keep: int = 10**9,
    mark: ScanPosition | None = None,
) -> PatternScan:
    """Feed a scan in blocks of a size; the clock stands still."""
    found = PatternScan(
        compile_pattern(pattern, literal=False, ignore_case=False) if isinstance(pattern, str) else pattern,
        len(data),
        mark or ScanPosition(),
        skip=skip,
        keep=keep,
        clock=lambda: 0.0,
        deadline=100.0,
        count_on=1.0,
    )
    while not found.is_done and found.needs < len(data):
        found.feed(data[found.needs : found.needs + block])
    return found


def places(hits: list[LineHit]) -> list[tuple[int, int, list[tuple[int, int]], bool]]:
    return [(h.line, h.line_start, [(m.start, m.end) for m in h.matches], h.more) for h in hits]


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_hits_do_not_depend_on_how_the_content_is_cut_into_blocks(name: str, pattern: str) -> None:
    data = TEXTS[name]
    whole = scan(data, pattern, len(data))
    pieces = scan(data, pattern, 300_001)
    assert places(pieces.hits) == places(whole.hits)
    assert pieces.count == whole.count == len(whole.hits)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_pages_from_marks_join_to_the_whole(name: str, pattern: str) -> None:
    data = TEXTS[name]
    whole = scan(data, pattern, len(data))
    keep = max(1, whole.count // 3)
    joined: list[LineHit] = []
    mark: ScanPosition | None = ScanPosition()
    while mark is not None:
        page = scan(data, pattern, 1024 * 1024, skip=mark.hits, keep=keep, mark=mark)
        assert page.count == whole.count
        joined += page.hits
        mark = page.page_end
    assert places(joined) == places(whole.hits)


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        ("140$", [1, 4]),
        ("(140|150)$", [1, 2, 4]),
        ("^$", [3]),
        (r"cost \$5", [5]),
        ("cost [$]5", [5]),
        (r"\Q$5\E", [5]),
        (r"[^\]$]5$", []),
    ],
)
def test_a_line_ends_before_its_carriage_return(pattern: str, lines: list[int]) -> None:
    data = b"a,140\r\nb,150\r\n\r\nc,140\ncost $5\r\n"
    assert [hit.line for hit in scan(data, pattern, len(data)).hits] == lines


def test_lines_are_numbered_and_placed_as_they_are() -> None:
    data = TEXTS["long lines among short ones"]
    for hit in scan(data, r"foo", 1024 * 1024).hits:
        assert hit.line == data.count(b"\n", 0, hit.line_start) + 1
        assert hit.line_start == 0 or data[hit.line_start - 1 : hit.line_start] == b"\n"
        assert {data[m.start : m.end] for m in hit.matches} == {b"foo"}
        assert b"\n" not in data[hit.line_start : hit.matches[-1].end]


class Heavy(Pattern):
    """A pattern that claims to be slow, so that it is given few bytes at once; it remembers how many."""

    def __init__(self, pattern: str, byte_seconds: float) -> None:
        plain = compile_pattern(pattern, literal=False, ignore_case=False)
        super().__init__(lambda _anchor, data, start, end: [plain.find(data, start, end) or (-1, -1)], byte_seconds)
        self.most = 0

    def find(self, data: bytes, start: int, end: int) -> tuple[int, int] | None:
        self.most = max(self.most, end - start)
        return super().find(data, start, end)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("most", [8 * 1024, 100_000, 700_000])
def test_hits_do_not_depend_on_how_much_is_searched_at_once(name: str, pattern: str, most: int) -> None:
    data = TEXTS[name]
    heavy = Heavy(pattern, WORST_SECONDS / most)
    assert places(scan(data, heavy, 300_001).hits) == places(scan(data, pattern, 300_001).hits)
    assert 0 < heavy.most <= most + 1


def test_no_byte_is_searched_that_could_not_be_finished_in_time() -> None:
    now = [0.0]
    heavy = Heavy("zzz", WORST_SECONDS / 10_000)
    plain = heavy.find

    class Timed(Heavy):
        def find(self, data: bytes, start: int, end: int) -> tuple[int, int] | None:
            now[0] += (end - start) * self.byte_seconds
            return plain(data, start, end)

    timed = Timed("zzz", heavy.byte_seconds)
    data = TEXTS["one long line"]
    mark, calls = ScanPosition(), 0
    while mark.byte < len(data):
        now[0] = 0.0
        found = PatternScan(timed, len(data), mark, skip=0, keep=9, clock=lambda: now[0], deadline=2.0, count_on=1.0)
        while not found.is_done:
            found.feed(data[found.needs : found.needs + 1024 * 1024])
        assert now[0] <= 2.3
        assert found.mark().byte > mark.byte
        mark, calls = found.mark(), calls + 1
    assert calls > 100
