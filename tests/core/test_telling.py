"""What a kind knows of its payload: what failed, what repeats, what a list holds, which lines say most."""

import random

import pytest

from coatcheck.core.artifact import Kind, Said
from coatcheck.core.kinds import recognise
from coatcheck.core.kinds.failure import failures
from coatcheck.core.kinds.telling import closing, opening, pieces, telling
from core.matter import HOSTILE, ORDINARY, TOKENIZER, card_of, sample_of

EVERYTHING = {**ORDINARY, **HOSTILE}

RNG = random.Random(3)
NOISE = [f"[INFO] step {n} of the build is done in {n} ms" for n in range(400)]


def spots(data: bytes) -> list[str]:
    """The lines that state a failure, in the order in which a card would show them."""
    return [data[spot.start : spot.end].decode().rstrip("\n") for spot in failures(data)]


FAILURES = {
    "a compiler": ("src/App.java:[27,12] error: incompatible types", "BUILD FAILURE"),
    "a traceback": ("Traceback (most recent call last):", "ValueError: bad input"),
    "a panic": ("thread 'main' panicked at 'index out of bounds', src/main.rs:4:5", "error: could not compile `x`"),
    "a full disk": ("bash: line 12: a.xml: No space left on device", "ERROR: no output was written"),
    "a test run": ("FAILED tests/test_a.py::test_b - assert 1 == 2", "1 failed, 41 passed in 3.10s"),
    "a crash": ("Segmentation fault (core dumped)", "make: *** [check] Error 139"),
    "a node script": ("npm ERR! code ELIFECYCLE", "npm ERR! Exit status 1"),
}


@pytest.mark.parametrize("name", FAILURES)
@pytest.mark.parametrize("budget", [200, 512])
def test_a_failure_in_the_middle_of_noise_is_shown(name: str, budget: int) -> None:
    cause, summary = FAILURES[name]
    data = "\n".join([*NOISE[:200], cause, *NOISE[200:380], summary, *NOISE[380:]]).encode()
    _, text, _ = card_of(data, Said(kind=Kind.LOG), budget)
    assert cause in text
    assert NOISE[-1] in text


def test_a_thousand_repetitions_do_not_hide_the_one_line_that_matters() -> None:
    rows = [f"ERROR: connection {n} was lost, retrying" for n in range(1000)]
    rows[500] = "ERROR: the certificate of db.internal expired on 2026-03-01"
    assert "expired" in " ".join(spots("\n".join(rows).encode())[:3])


def test_a_word_that_merely_mentions_an_error_is_no_failure() -> None:
    data = b"0 errors, 0 failures\nif-error handling is documented\nno errors\nerror-prone is a plugin\n" * 50
    assert spots(data) == []


def test_the_last_summary_comes_before_earlier_ones() -> None:
    rows = [*NOISE[:50], "Tests run: 9, Failures: 1", *NOISE[50:90], "Tests run: 202, Failures: 5", *NOISE[90:]]
    found = spots("\n".join(rows).encode())
    assert found[0] == "Tests run: 202, Failures: 5"


SHAPES = {
    "src/a.py:3: x = 1\nsrc/a.py:9: y = x\nsrc/b.py:1: x\n" * 4: (
        "12 matching lines in 2 files: src/a.py 8, src/b.py 4",
    ),
    "./src/a.py\n./src/b.py\n./docs/x.md\n" * 4: ("12 paths; by ending: .py 8, .md 4; by directory: src/ 8, docs/ 4",),
    "total 8\ndrwxr-xr-x 2 me me 4096 Mar  3 12:00 src\n" + "-rw-r--r-- 1 me me 120 Mar  3 12:00 a.py\n" * 8: (
        "8 files, 1 directory, 0 links; by ending: .py 8",
    ),
    ".\n" + "├── a.py\n│   ├── b.py\n│   └── c.md\n" * 4: ("Tree of 12 names; by ending: .py 8, .md 4",),
    ".\n" + "|-- a.py\n|   |-- b.py\n|   `-- c.md\n" * 4: ("Tree of 12 names; by ending: .py 8, .md 4",),
    "".join(f"2026-03-01 12:00:{n:02} INFO fetched the page {n}\n" for n in range(60)): (
        "60 of 60 lines like: # INFO fetched the page #",
    ),
    "".join(f"a line that is said once, with {word} in it\n" for word in "abcdefgh"): (),
}


@pytest.mark.parametrize("text", SHAPES, ids=range(len(SHAPES)))
def test_what_a_command_printed_is_counted(text: str) -> None:
    found = recognise(sample_of(text.encode()), Said(kind=Kind.COMMAND_OUTPUT)).shape
    assert tuple(line for line in found if "mermaid" not in line) == SHAPES[text]


DIFFS = {
    "git": (
        (
            b"diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
            b"diff --git a/y.py b/y.py\nnew file mode 100644\n--- /dev/null\n+++ b/y.py\n@@ -0,0 +1,2 @@\n+a\n+b\n"
        ),
        ("2 files, 2 hunks, +3 -1", "x.py +1 -1", "y.py +2 -0"),
    ),
    "unified, two files": (
        b"--- a/x.c\t2026\n+++ b/x.c\t2026\n@@ -1 +1 @@\n-a\n+b\n--- a/y.c\n+++ b/y.c\n@@ -1 +1 @@\n-a\n+b\n",
        ("2 files, 2 hunks, +2 -2", "x.c +1 -1", "y.c +1 -1"),
    ),
    "a deleted file": (
        b"diff --git a/z.py b/z.py\ndeleted file mode 100644\n--- a/z.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n",
        ("1 file, 1 hunk, +0 -2", "z.py +0 -2"),
    ),
}


@pytest.mark.parametrize("name", DIFFS)
def test_a_diff_names_its_files_with_their_counts(name: str) -> None:
    data, shape = DIFFS[name]
    assert recognise(sample_of(data), Said(kind=Kind.DIFF)).shape == shape


@pytest.mark.parametrize("name", EVERYTHING)
def test_pieces_are_in_order_and_none_overlaps_another(name: str) -> None:
    data, _ = EVERYTHING[name]
    for block in (0, 160):
        found = pieces(data, block)
        edges = [edge for piece in found for edge in piece]
        assert edges == sorted(edges)
        assert all(start < end <= len(data) for start, end in found)
    spots_found = list(telling(data, 7))
    assert len({(spot.start, spot.end) for spot in spots_found}) == len(spots_found)
    assert all(7 <= spot.start < spot.end <= 7 + len(data) for spot in spots_found)


def test_what_says_something_new_comes_before_what_says_it_again() -> None:
    said = "the deployment pipeline promotes artifacts between environments"
    rows = [said, *[f"{said} again" for _ in range(30)], "rollback restores the previous database snapshot"]
    data = "\n".join(rows).encode()
    shown = [data[spot.start : spot.end].decode().strip() for spot in telling(data)]
    assert set(shown[:2]) == {rows[0] if rows[0] in shown[:2] else rows[1], rows[-1]}


def test_the_ends_of_a_text_are_whole_lines_and_whole_characters() -> None:
    data = "首行\n第二行\n".encode() * 60 + b"the end\n\n\n"
    first, last = opening(data), closing(data)
    assert data[first.start : first.end].decode().endswith("\n")
    assert data[last.start : last.end].decode().endswith("the end\n\n\n")
    assert data[last.start - 1 : last.start] == b"\n"
    whole = "数据库".encode() * 90
    assert whole[: opening(whole).end].decode()


def test_small_budgets_are_spent() -> None:
    rows = [f"{RNG.choice(['alpha', 'beta', 'gamma'])} word{n} and item{n * 7} of {n}" for n in range(500)]
    data = "\n".join(rows).encode()
    for budget in (128, 256, 600, 2048):
        _, text, tokens = card_of(data, Said(kind=Kind.TEXT), budget)
        assert tokens == TOKENIZER.count(text)
        assert budget - max(24, budget // 16) <= tokens <= budget
