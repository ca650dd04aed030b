"""What is counted in streams, held against git, whatever the pieces."""

import random
import re
from pathlib import Path

import pytest

from coatcheck.core.outline.summary import totals_of
from coatcheck.core.survey import survey_of
from facts.made_git import Repository, large_diff


def counted(data: bytes, sizes: list[int]) -> tuple[str, ...]:
    totals = totals_of(data)
    assert totals is not None
    at = number = 0
    while at < len(data):
        size = sizes[number % len(sizes)]
        totals.feed(data[at : at + size])
        at, number = at + size, number + 1
    return totals.facts()


def test_the_totals_of_a_diff_are_those_of_git(tmp_path: Path) -> None:
    rng = random.Random(5)
    repository = Repository(tmp_path, rng)
    repository.grow(40)
    for options in [(), ("-U0",), ("-U9",), ("--no-prefix",), ("--binary",)] * 6:
        old, new = repository.pair()
        data = repository.git("diff", "-M", *options, old, new).encode()
        brief = repository.git("diff", "-M", "--shortstat", *options, old, new)
        expected = [
            int(found[1]) if (found := re.search(rf"(\d+) {word}", brief)) else 0 for word in ("file", "ins", "del")
        ]
        if not expected[0]:
            continue
        for sizes in ([1 << 20], [rng.randint(1, 300)], [1, 900, 40]):
            found = re.match(r"(\d+) files?, \+(\d+) -(\d+)", counted(data, sizes)[0])
            assert found is not None
            assert list(map(int, found.groups())) == expected


def test_the_survey_of_a_large_diff_has_its_totals() -> None:
    data = large_diff(random.Random(3)).data
    assert len(data) > 700_000
    survey = survey_of(data, 512 * 1024)
    assert survey is not None
    assert survey.facts == counted(data, [len(data)]) == counted(data, [70_001, 3, 9_000])
    assert survey.facts[0].startswith("900 files, +")


def test_a_commits_subject_is_unfolded_and_decoded_wherever_a_piece_ends() -> None:
    mail = (
        b"From 1234567890123456789012345678901234567890 Mon Sep 17 00:00:00 2001\nFrom: Ann <a@b.example>\n"
        b"Subject: [RFC PATCH v2 1/2] =?UTF-8?q?Gr=C3=B6=C3=9Fe=20of?=\n =?utf-8?B?IGNvYXRz?= and\n hats\n\n---\n"
        b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n-- \n2.39.5\n"
    )
    expected = ("1 commit: 123456789012 Größe of coats and hats", "1 file, +1 -1: x +1 -1")
    for size in range(1, len(mail)):
        assert counted(mail, [size, len(mail)]) == expected
    odd = mail.replace(b"UTF-8?q", b"no-such?q").replace(b"IGNvYXRz", b"I")
    assert counted(odd, [len(odd)])[0].startswith("1 commit: 123456789012 =?no-such?q?Gr=C3=B6=C3=9Fe=20of?=")


def test_a_diff_with_more_files_than_are_remembered_or_with_merges_has_no_totals() -> None:
    many = b"".join(
        b"diff --git a/%d b/%d\n--- a/%d\n+++ b/%d\n@@ -0,0 +1 @@\n+x\n" % (n, n, n, n) for n in range(20_001)
    )
    assert counted(many, [1 << 19]) == ()
    assert counted(many[: many.index(b"diff --git a/19999 ")], [1 << 19])[0].startswith("19999 files, +19999 -0: ")
    merge = many[: many.index(b"diff --git a/1 ")] + b"diff --cc y\n--- a/y\n+++ b/y\n@@@ -1 -1 +1 @@@\n++z\n"
    assert counted(merge, [1 << 19]) == ()


def test_a_file_of_more_hunks_than_an_outline_has_is_counted() -> None:
    hunks = b"".join(b"@@ -%d +%d @@\n-a\n+b\n" % (n, n) for n in range(1, 12_001))
    data = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n" + hunks
    assert counted(data, [1 << 20]) == counted(data, [1_000]) == ("1 file, +12000 -12000: x +12000 -12000",)


def test_a_long_line_that_is_cut_counts_once() -> None:
    line = b"+" + b"-+" * 50_000 + b"\n"
    data = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n" + line + b" b\n"
    assert counted(data, [4_099]) == counted(data, [len(data)]) == ("1 file, +1 -1: x +1 -1",)


@pytest.mark.parametrize(
    ("head", "counts"),
    [
        (b"hello\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", True),
        (b"", False),
        (b"--- a\ntext\n@@ -1 +1 @@\n", False),
    ],
)
def test_the_beginning_tells_whether_it_is_a_diff(head: bytes, counts: bool) -> None:
    assert (totals_of(head) is not None) == counts
