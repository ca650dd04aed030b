"""Runs of an agent that uses real programs: it looks through, tests and mends an installed package.

What the tools answer is what git, grep, sed, find, pytest, ruff, pip, gcc, objdump, dpkg and npm really print of a copy
of the package; a program that this machine lacks answers as a shell does. What the agent does next is made up by rules:
it goes on with names, files and lines that earlier outputs showed, mostly the last one. No model takes part, so that
runs say nothing of how well a model works, only of what its requests would be.

`.venv/bin/python -m bench.replay.workshop DIR` writes them to a folder; `make bench ARGS="replay --transcripts DIR"`
replays them.
"""

import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, Final, final

Message = dict[str, Any]

_MOST_CHARS: Final = 60_000
"""Of an output; agents' hosts cut longer ones, too."""
_SECONDS: Final = 30
_SOURCES: Final = range(8, 120)
"""How many source files a package has that is worked on."""
_TURNS: Final = 5
RUNS: Final = 32
_DEFINED: Final = re.compile(r"\b(?:def|class) (\w{5,})")
_HIT: Final = re.compile(r"^(\./[\w./-]+\.py):(\d+)", re.MULTILINE)
_FILE: Final = re.compile(r"\./[\w./-]+\.py\b")
_FAILED: Final = re.compile(r"^([\w./-]+\.py):(\d+): ", re.MULTILINE)


def packages() -> list[tuple[str, Path]]:
    """Installed packages of a size that an agent works on, by name, and where they are."""
    found: dict[str, Path] = {}
    for one in metadata.distributions():
        for top in {path.parts[0] for path in one.files or () if path.suffix == ".py" and len(path.parts) > 1}:
            folder = Path(str(one.locate_file(top)))
            if top.isidentifier() and not top.startswith("_") and folder.is_dir():
                found[top] = folder
    return [(name, path) for name, path in sorted(found.items()) if len(list(path.rglob("*.py"))) in _SOURCES]


def run_in(package: tuple[str, Path], seed: int) -> list[Message]:
    """The messages of one run over a copy of a package."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(package[1], Path(folder) / package[0], ignore=shutil.ignore_patterns("__pycache__"))
        return list(_Agent(Path(folder), package[0], random.Random(seed)).run())


@final
class _Agent:
    """Decides by rules what comes next, and does it."""

    def __init__(self, folder: Path, package: str, rng: random.Random) -> None:
        self._folder = folder
        self._package = package
        self._rng = rng
        self._calls = 0
        self._last = ""
        self._names: list[str] = []
        self._files: list[str] = []

    def run(self) -> Iterator[Message]:
        """All messages, the last one of the agent."""
        yield {"role": "system", "content": "You work in a shell on a code base, and report what you find."}
        self._shell("git init -q . && git add -A && git -c user.name=a -c user.email=a@b.invalid commit -qm start")
        tasks = [self._understand, self._follow, self._test, self._lint, self._build, self._survey]
        for number in range(_TURNS):
            task = self._rng.choice(tasks) if number else self._understand
            yield {"role": "user", "content": f"Task {number + 1}, {task.__name__.strip('_')}: go on, please."}
            yield from task()
            yield {"role": "assistant", "content": f"Seen: {', '.join(self._older(4))}."}
        yield {"role": "user", "content": "Sum up."}
        yield {"role": "assistant", "content": f"In the end: {', '.join(self._older(12))}."}

    # ------------------------------------------------------------------------------------------------- tasks

    def _understand(self) -> Iterator[Message]:
        yield from self._bash("find . -name '*.py' | xargs wc -l | sort -rn | head -80")
        yield from self._bash(f"grep -rnE '^(class|def) ' --include=*.py {self._package} | sed 's|^|./|' | head -250")
        for _ in range(self._rng.randrange(3, 6)):
            yield from self._look()

    def _follow(self) -> Iterator[Message]:
        for _ in range(self._rng.randrange(3, 5)):
            name = self._name()
            yield from self._bash(f"grep -rnw '{name}' --include=*.py ./{self._package} | head -300")
            yield from self._look()

    def _test(self) -> Iterator[Message]:
        names = self._older(3)
        listed = "\n".join(f"    assert hasattr(module, {name!r}), {name!r}" for name in names)
        head = f"import importlib\nimport pkgutil\nimport pytest\nimport {self._package} as package\n\n"
        body = (
            "MODULES = [one.name for one in pkgutil.walk_packages(package.__path__, package.__name__ + '.')]\n\n\n"
            "@pytest.mark.parametrize('name', MODULES)\ndef test_names(name):\n"
            f"    module = importlib.import_module(name)\n{listed}\n"
        )
        cases = "".join(f"\n\ndef test_case_{n}():\n    assert len({name!r}) == {n}\n" for n, name in enumerate(names))
        path = f"tests/test_{self._calls}.py"
        yield from self._write(path, head + body + cases)
        yield from self._bash(f"{sys.executable} -m pytest -q -p no:cacheprovider -p no:xdist {path} -x --maxfail=12")
        yield from self._look()
        mended = head + body.replace(listed, "    assert module.__name__ == name") + cases
        yield from self._write(path, mended)
        yield from self._bash(f"{sys.executable} -m pytest -v -p no:cacheprovider -p no:xdist {path}")
        yield from self._bash("git add -A && git diff --cached")

    def _lint(self) -> Iterator[Message]:
        yield from self._bash(
            f"ruff check --isolated --select ALL --output-format concise ./{self._package} | head -400"
        )
        for _ in range(2):
            yield from self._look()
        file = self._file()
        yield from self._bash(f"ruff check --isolated --select ALL {file}")
        yield from self._bash(f"sed -i '1i # reviewed' {file} && git diff")

    def _build(self) -> Iterator[Message]:
        name = self._name()
        source = f"#include <stdio.h>\n#include <{name}.h>\nint main(void) {{ return {name}(1, x); }}\n"
        yield from self._write("probe.c", source)
        yield from self._bash("gcc -Wall -Wextra -fsyntax-only probe.c")
        unknown = "".join(f"int f{n}(void) {{ return {one}({n}); }}\n" for n, one in enumerate(self._older(20)))
        yield from self._write("probe.c", "#include <stdio.h>\n" + unknown)
        yield from self._bash("gcc -Wall -Wextra -c probe.c -o probe.o; objdump -d probe.o")
        yield from self._bash(f"{sys.executable} -m pip show -f {self._package}")

    def _survey(self) -> Iterator[Message]:
        yield from self._bash(f"{sys.executable} -m pip list")
        yield from self._bash("dpkg-query -W | head -400")
        yield from self._bash("npm ls -g --all")
        yield from self._bash(f"ls -laR ./{self._package}")
        yield from self._look()
        yield from self._bash(f"git log --stat --oneline && git blame {self._file()} | head -200")

    def _look(self) -> Iterator[Message]:
        """Read on where the last output points to, or the whole of a file that was named."""
        hits = [*_HIT.findall(self._last), *((f"./{path}", line) for path, line in _FAILED.findall(self._last))]
        if hits and self._rng.random() < 0.6:
            path, line = self._rng.choice(hits)
            start = max(int(line) - 20, 1)
            yield from self._bash(f"sed -n '{start},{start + self._rng.choice((60, 120, 200))}p' {path}")
        else:
            path = self._file()
            yield from self._call("read_file", {"path": path}, self._shell(f"cat {path}"))

    # --------------------------------------------------------------------------------------------- its means

    def _bash(self, command: str) -> Iterator[Message]:
        yield from self._call("bash", {"command": command}, self._shell(command))

    def _write(self, path: str, content: str) -> Iterator[Message]:
        (self._folder / path).parent.mkdir(exist_ok=True)
        (self._folder / path).write_text(content)
        yield from self._call("write_file", {"path": path, "content": content}, f"Wrote {len(content)} characters.")

    def _call(self, tool: str, arguments: dict[str, str], output: str) -> Iterator[Message]:
        self._calls += 1
        call_id = f"call_{self._calls}"
        function = {"name": tool, "arguments": json.dumps(arguments)}
        call = {"id": call_id, "type": "function", "function": function}
        yield {"role": "assistant", "content": f"Next: {', '.join(self._older(2))}.", "tool_calls": [call]}
        yield {"role": "tool", "tool_call_id": call_id, "content": output}
        self._last = output
        self._names += self._some(_DEFINED.findall(output), 8)
        self._files += self._some(_FILE.findall(output), 6)

    def _shell(self, command: str) -> str:
        tools = Path(sys.executable).parent
        around = f'export PATH="{tools}:$PATH" HOME="$PWD" LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1\n'
        try:
            done = subprocess.run(
                ["bash", "-c", around + command], cwd=self._folder, timeout=_SECONDS, check=False,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"(stopped after {_SECONDS} s)"
        return done.stdout.decode("utf-8", "replace")[:_MOST_CHARS] or f"(no output, exit code {done.returncode})"

    def _some(self, found: list[str], most: int) -> list[str]:
        unique = list(dict.fromkeys(found))
        return self._rng.sample(unique, k=min(most, len(unique)))

    def _older(self, count: int) -> list[str]:
        known = self._names[-80:]
        return self._rng.sample(known, k=min(count, len(known))) or [self._package]

    def _name(self) -> str:
        """A name from the last output, or from an earlier one."""
        return self._rng.choice(self._names[-8:] if self._rng.random() < 0.6 else self._names)

    def _file(self) -> str:
        recent = self._files[-6:] if self._rng.random() < 0.6 else self._files
        there = [path for path in dict.fromkeys(recent) if (self._folder / path).is_file()]
        sources = [f"./{path.relative_to(self._folder)}" for path in sorted(self._folder.rglob("*.py"))]
        return self._rng.choice(there or sources)


def write(folder: Path) -> None:
    """Write runs over RUNS packages to a folder, every other one to `left-out`: nothing may be chosen on those."""
    found = packages()
    for number, package in enumerate(found[:: max(len(found) // RUNS, 1)][:RUNS]):
        path = folder / ("left-out" if number % 2 else "chosen-on") / f"{package[0]}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(run_in(package, number)))
        print(path, flush=True)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
