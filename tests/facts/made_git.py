"""Diffs by git and by difflib, and logs of commits; git itself says what is in them."""

import difflib
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from coatcheck.core.artifact import DeclaredMetadata, Kind
from facts.cases import Case
from facts.found_records import pair_lists
from facts.says_records import RecordsOracle
from facts.says_source import CommitsOracle, DiffOracle, OutlineOracle

_NAMES: Final = (
    "a.py",
    "src/b c.py",
    "größe.txt",
    'say "x".md',
    "deep/er/d.c",
    "tab\there.txt",
    "x; y.js",
    "- odd.txt",
    "b/a b/b.py",
)
_LINES: Final = (
    "x = 1",
    "-- a comment of SQL",
    "++ odd",
    "",
    "--- a/x.py",
    "+++ b/x.py",
    "diff --git a/q b/q",
    "@@ -1 +1 @@",
    "é",
)


class Repository:
    """A repository in a folder, with commits that are made at random."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self._folder = folder
        self._rng = rng
        self.git("init", "-q", "-b", "main")
        self._hashes: list[str] = []

    def git(self, *arguments: str) -> str:
        """What git prints."""
        env = {"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(self._folder), "GIT_CONFIG_NOSYSTEM": "1"}
        config = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", *config, *arguments], cwd=self._folder, env=env, capture_output=True, check=True)
        return done.stdout.decode("utf-8", "replace")

    def grow(self, commits: int) -> None:
        """Changes some files, and commits."""
        rng = self._rng
        for number in range(commits):
            for name in rng.sample(_NAMES, rng.randint(1, 4)):
                path = self._folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                lines = path.read_text().split("\n") if path.exists() else []
                for _ in range(rng.randint(1, 8)):
                    lines.insert(
                        rng.randrange(len(lines) + 1), f"{rng.choice(_LINES)}{rng.choice(['', ' ', str(number)])}"
                    )
                if lines and rng.random() < 0.6:
                    del lines[rng.randrange(len(lines)) :][:3]
                path.write_text("\n".join(lines) + rng.choice(["", "\n"]))
            if rng.random() < 0.1:
                (self._folder / rng.choice(_NAMES)).unlink(missing_ok=True)
            self.git("add", "-A")
            subject = rng.choice(
                ["Add a thing", "Fix: commit 1234567 of it; again", "Über größe", "w" * 40 + " " + "long " * 12]
            )
            self.git(
                "commit",
                "-q",
                "--allow-empty",
                "-m",
                f"{subject} {number}".strip(),
                "-m",
                "commit 7654321abc was wrong\n\nmore",
            )
        self._hashes = self.git("log", "--format=%H").split()

    def pair(self) -> tuple[str, str]:
        """Two commits, the older one first."""
        new, old = sorted(self._rng.sample(range(len(self._hashes)), 2))
        return self._hashes[old], self._hashes[new]


def git_diffs(rng: random.Random, count: int, repository: Repository) -> Iterator[Case]:
    """What `git diff` prints of two commits."""
    for _ in range(count):
        old, new = repository.pair()
        options = rng.choice([(), ("-U0",), ("-U1",), ("--no-prefix",), ("-M",)])
        text = repository.git("diff", *options, old, new)
        renames = ("-M",) if options == ("-M",) else ("--no-renames",) if options else ()
        yield Case(
            text.encode(),
            (DiffOracle(numstat(repository.git("diff", "-z", "--numstat", *renames, old, new))),),
            rng.choice([DeclaredMetadata(), DeclaredMetadata(tool_name="Bash")]),
        )


def numstat(told: str) -> list[tuple[str, int, int]]:
    """The files of `git diff -z --numstat`, under the names that they have now."""
    out: list[tuple[str, int, int]] = []
    fields = told.split("\0")
    while len(fields) > 1:
        added, removed, name = fields.pop(0).split("\t", 2)
        if not name:  # a rename: the old and the new name follow
            _, name = fields.pop(0), fields.pop(0)
        out.append((" ".join(name.split()), int(added), int(removed)))
    return out


def subjects(told: str) -> list[tuple[str, str]]:
    """The commits of `git log --format=%H%x00%s`, with their subjects as titles."""
    rows = (line.partition("\0") for line in told.splitlines())
    return [(digest, " ".join(subject.split())) for digest, _, subject in rows]


def unified(rng: random.Random, count: int) -> Iterator[Case]:
    """Unified diffs by difflib, of one file or several, without git's headers."""
    for _ in range(count):
        files: list[tuple[str, int, int]] = []
        text: list[str] = []
        place = rng.choice(["", "", "opt/", "usr/lib/x86_64-linux-gnu/perl/"])
        for name in [
            place + name for name in rng.sample(["a.py", "src/b.py", "docs/größe.md", "c"], rng.randint(1, 3))
        ]:
            old = [f"{rng.choice(_LINES)} {n}\n" for n in range(rng.randint(3, 60))]
            new = [line for line in old if rng.random() < 0.8]
            for _ in range(rng.randint(1, 9)):
                new.insert(rng.randrange(len(new) + 1), f"{rng.choice(_LINES)} new\n")
            made = list(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}", n=rng.choice([0, 1, 3])))
            body = made[2:]
            files.append((name, sum(line[0] == "+" for line in body), sum(line[0] == "-" for line in body)))
            text += made
        yield Case("".join(text).encode(), (DiffOracle(files),), kinds=(Kind.DIFF,))


def logs(rng: random.Random, count: int, repository: Repository) -> Iterator[Case]:
    """What `git log` prints, in several forms."""
    forms = (
        ("--format=medium",),
        ("--oneline",),
        ("--format=fuller",),
        ("--graph", "--oneline"),
        ("--oneline", "--no-abbrev-commit"),
        ("--stat",),
        ("--graph",),
    )
    for _ in range(count):
        form, number = rng.choice(forms), rng.randint(3, 60)
        told = repository.git("log", "-n", str(number), "--format=%H%x00%s")
        commits = subjects(told)
        text = repository.git("log", "-n", str(number), *form)
        lines = {n: line.lstrip("* ") for n, line in enumerate(text.split("\n"), 1)} if "--oneline" in form else {}
        oracles = (CommitsOracle(commits), OutlineOracle("Outline", lines, len(lines)))
        yield Case(
            text.encode(),
            (*oracles, RecordsOracle(*pair_lists(text))),
            rng.choice([DeclaredMetadata(), DeclaredMetadata(tool_name="bash")]),
        )


def patches(rng: random.Random, count: int, repository: Repository) -> Iterator[Case]:
    """What `git log -p` prints: commits with their diffs, in which a file may change again and again."""
    for _ in range(count):
        number = rng.randint(1, 9)
        text = repository.git("log", "-n", str(number), "-p", "--no-renames")
        files: list[tuple[str, int, int]] = []
        for digest in repository.git("log", "-n", str(number), "--format=%H").split():
            files += numstat(repository.git("show", "--format=", "-z", "--numstat", "--no-renames", digest))
        told = repository.git("log", "-n", str(number), "--format=%H%x00%s")
        commits = subjects(told)
        yield Case(text.encode(), (*(DiffOracle(files), CommitsOracle(commits)), RecordsOracle(*pair_lists(text))))


def mails(rng: random.Random, count: int, repository: Repository) -> Iterator[Case]:
    """What `git format-patch --stdout` prints: subjects are folded, and encoded if they are not ASCII."""
    for _ in range(count):
        old, new = repository.pair()
        options = rng.choice([(), ("-n",), ("--subject-prefix=RFC PATCH v2",)])
        text = repository.git("format-patch", "--stdout", "--no-renames", *options, f"{old}..{new}")
        told = repository.git("log", "--reverse", "--format=%H%x00%s", f"{old}..{new}")
        commits = subjects(told)
        files: list[tuple[str, int, int]] = []
        mailed = [commit for commit in commits if f"From {commit[0]} " in text]  # empty ones are left out
        for digest, _ in mailed:
            files += numstat(repository.git("show", "--format=", "-z", "--numstat", "--no-renames", digest))
        yield Case(text.encode(), (*(DiffOracle(files), CommitsOracle(mailed)), RecordsOracle(*pair_lists(text))))


def large_diff(rng: random.Random) -> Case:
    """A diff of many files and about 800 KB, some of which have lines that look like headers."""
    files: list[tuple[str, int, int]] = []
    text: list[str] = []
    for number in range(900):
        old = [f"{rng.choice(_LINES)} {n}\n" for n in range(40)]
        new = [line for line in old if rng.random() < 0.8] + [f"{'long ' * rng.choice([1, 1, 900])}\n"]
        name = f"src/{number}.py"
        text += [f"diff --git a/{name} b/{name}\n", "index 1234567..89abcde 100644\n"]
        body = list(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}", n=rng.choice([0, 3])))
        text += body
        files.append((name, sum(line[0] == "+" for line in body[2:]), sum(line[0] == "-" for line in body[2:])))
    return Case("".join(text).encode(), (DiffOracle(files),), kinds=(Kind.DIFF,))


def numbered_commits(rng: random.Random, count: int) -> Case:
    """A log of so many commits, one a line."""
    commits = [(f"{n:07x}a"[-8:].replace("0", "b"), f"change {rng.randrange(9)}") for n in range(count)]
    return Case("".join(f"{digest} {subject}\n" for digest, subject in commits).encode(), (CommitsOracle(commits),))
