"""Outputs of well-known programs, in their forms, with made contents: for machines that have none of them."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from coatcheck.core.artifact import Kind
from kinds.corpus import Source

_PACKAGES: Final = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "numpy-lite",
    "webkit",
    "express",
    "lodash",
    "parser",
    "left-pad",
    "zlib",
    "openssl",
]


def _version(rng: Random) -> str:
    return f"{rng.randrange(9)}.{rng.randrange(30)}.{rng.randrange(9)}"


def _pip(rng: Random, size: int) -> list[str]:
    lines: list[str] = []
    for _ in range(size):
        name, version = rng.choice(_PACKAGES), _version(rng)
        lines.append(f"Collecting {name}")
        lines.append(f"  Downloading {name}-{version}-py3-none-any.whl ({rng.randrange(900)} kB)")
        if rng.random() < 0.3:
            lines.append(
                f"Requirement already satisfied: {name}>={version} in ./lib/python3.11/site-packages ({version})"
            )
    return [*lines, f"Successfully installed {' '.join(f'{name}-{_version(rng)}' for name in _PACKAGES)}"]


def _npm(rng: Random, size: int) -> list[str]:
    lines = ["", "> app@1.0.0 build", "> vite build && node check.js", ""]
    lines += [f"npm warn deprecated {rng.choice(_PACKAGES)}@{_version(rng)}: use something newer" for _ in range(size)]
    return [*lines, f"added {size * 9} packages, and audited {size * 10} packages in 4s", "", "found 0 vulnerabilities"]


def _gcc(rng: Random, size: int) -> list[str]:
    lines: list[str] = []
    for _ in range(size):
        path, line = f"src/{rng.choice(_PACKAGES)}.c", rng.randrange(900)
        lines += [
            f"{path}: In function 'main':",
            f"{path}:{line}:{rng.randrange(80)}: error: 'x{line}' undeclared (first use in this function)",
            f"  {line} |   return x{line} + 1;",
            "      |          ^~~~",
        ]
    return [*lines, "make: *** [Makefile:12: all] Error 1"]


def _make(rng: Random, size: int) -> list[str]:
    names = [rng.choice(_PACKAGES) for _ in range(size)]
    return [f"gcc -O2 -Wall -c -o build/{name}.o src/{name}.c" for name in names] + ["ld -o app build/*.o"]


def _cargo(rng: Random, size: int) -> list[str]:
    lines = [f"   Compiling {rng.choice(_PACKAGES)} v{_version(rng)}" for _ in range(size)]
    lines += ["error[E0308]: mismatched types", "  --> src/main.rs:4:18", "   |", '4  |     let x: u8 = "no";']
    return [*lines, "error: could not compile `app` (bin) due to 1 previous error"]


def _docker(rng: Random, size: int) -> list[str]:
    lines: list[str] = []
    for n in range(1, size + 1):
        lines += [f"#{n} [stage-1 {n}/{size}] RUN install {rng.choice(_PACKAGES)}", f"#{n} {rng.random():.3f} fetching"]
        lines += [f"#{n} DONE {rng.random() * 9:.1f}s", ""]
    return lines


def _git_status(rng: Random, size: int) -> list[str]:
    lines = ["On branch main", "Your branch is up to date with 'origin/main'.", "", "Changes not staged for commit:"]
    lines += [f"\tmodified:   src/{rng.choice(_PACKAGES)}_{n}.py" for n in range(size)]
    return [*lines, "", "Untracked files:", "\tnotes.txt", "", 'no changes added to commit (use "git add")']


def _git_log(rng: Random, size: int) -> list[str]:
    lines: list[str] = []
    for _ in range(size):
        lines += [f"commit {rng.randbytes(20).hex()}", "Author: Ann <ann@example.org>"]
        lines += ["Date:   Sun Mar 1 08:00:00 2026 +0000", "", f"    Make {rng.choice(_PACKAGES)} better", ""]
    return lines


def _git_oneline(rng: Random, size: int) -> list[str]:
    return [f"{rng.randbytes(4).hex()[:7]} Make {rng.choice(_PACKAGES)} {rng.choice(_PACKAGES)}" for _ in range(size)]


def _ps(rng: Random, size: int) -> list[str]:
    head = "USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND"
    return [head] + [
        f"root {rng.randrange(99999):>11}  0.{rng.randrange(9)}  0.1 {rng.randrange(99999):>6} {rng.randrange(999):>5}"
        f" ?        Ss   08:1{rng.randrange(9)}   0:00 /usr/sbin/{rng.choice(_PACKAGES)} --daemon"
        for _ in range(size)
    ]


def _df(rng: Random, size: int) -> list[str]:
    return ["Filesystem     1K-blocks     Used Available Use% Mounted on"] + [
        f"/dev/sd{rng.choice('abc')}{n}  {rng.randrange(10**8):>12} {rng.randrange(10**7):>8} {rng.randrange(10**7):>9}"
        f" {rng.randrange(99):>3}% /mnt/{rng.choice(_PACKAGES)}"
        for n in range(size)
    ]


def _env(rng: Random, size: int) -> list[str]:
    return ["SHELL=/bin/bash", "HOME=/root", "PATH=/usr/bin:/bin", "LANG=C.UTF-8"] + [
        f"{rng.choice(_PACKAGES).upper().replace('-', '_')}_{n}={rng.choice(('1', '/opt/x', 'true', _version(rng)))}"
        for n in range(size)
    ]


def _kubectl(rng: Random, size: int) -> list[str]:
    return ["NAME                          READY   STATUS             RESTARTS   AGE"] + [
        f"{rng.choice(_PACKAGES) + '-' + rng.randbytes(4).hex():<29} 1/1     "
        f"{rng.choice(('Running', 'CrashLoopBackOff')):<18} {rng.randrange(9)}          {rng.randrange(90)}d"
        for _ in range(size)
    ]


def _jest(rng: Random, size: int) -> list[str]:
    lines: list[str] = []
    for _ in range(size):
        name = rng.choice(_PACKAGES)
        lines += [
            f"{rng.choice(('PASS', 'FAIL'))} src/{name}.test.ts",
            f"  {name}",
            f"    ✓ works ({rng.randrange(90)} ms)",
        ]
    return [*lines, "", f"Tests:       1 failed, {size} passed, {size + 1} total", "Time:        4.2 s"]


def _go_test(rng: Random, size: int) -> list[str]:
    lines: list[str] = []
    for n in range(size):
        lines += [f"=== RUN   TestThing{n}", f"--- PASS: TestThing{n} ({rng.random():.2f}s)"]
    return [*lines, "--- FAIL: TestLast (0.00s)", "    last_test.go:31: got 1, want 2", "FAIL", "exit status 1"]


def _terraform(rng: Random, size: int) -> list[str]:
    lines = ["Terraform will perform the following actions:", ""]
    for n in range(size):
        lines += [f"  # aws_instance.{rng.choice(_PACKAGES)}[{n}] will be created"]
        lines += [f'  + resource "aws_instance" "x{n}" {{', '      + ami  = "ami-1"', "    }", ""]
    return [*lines, f"Plan: {size} to add, 0 to change, 0 to destroy."]


def _shell(rng: Random, size: int) -> list[str]:
    lines: list[str] = []
    for _ in range(size):
        name = rng.choice(_PACKAGES)
        lines += [f"$ cat {name}.txt", f"cat: {name}.txt: No such file or directory", f"$ echo {name}", name]
    return lines


def _curl(rng: Random, size: int) -> list[str]:
    lines = ["*   Trying 127.0.0.1:8080...", "* Connected to localhost (127.0.0.1) port 8080", "> GET / HTTP/1.1"]
    lines += ["> Host: localhost", "> ", "< HTTP/1.1 200 OK"]
    return lines + [f"< x-{rng.choice(_PACKAGES)}: {_version(rng)}" for _ in range(size)]


def _progress(rng: Random, size: int) -> list[str]:
    lines = [f"Epoch {n}/{size} - loss: {rng.random():.4f} - val_loss: {rng.random():.4f}" for n in range(1, size + 1)]
    return [*lines, "Saved model to /tmp/model.bin"]


def _apt(rng: Random, size: int) -> list[str]:
    lines = ["Reading package lists...", "Building dependency tree...", "The following NEW packages will be installed:"]
    for _ in range(size):
        name, version = rng.choice(_PACKAGES), _version(rng)
        lines += [f"Get:1 http://deb.example.org stable/main amd64 {name} amd64 {version} [{rng.randrange(900)} kB]"]
        lines += [f"Unpacking {name} ({version}) ...", f"Setting up {name} ({version}) ..."]
    return lines


PROGRAMS: Final[dict[str, Callable[[Random, int], list[str]]]] = {
    "pip": _pip,
    "npm": _npm,
    "gcc": _gcc,
    "make": _make,
    "cargo": _cargo,
    "docker build": _docker,
    "git status": _git_status,
    "git log": _git_log,
    "git log --oneline": _git_oneline,
    "ps": _ps,
    "df": _df,
    "env": _env,
    "kubectl": _kubectl,
    "jest": _jest,
    "go test": _go_test,
    "terraform": _terraform,
    "shell": _shell,
    "curl -v": _curl,
    "training": _progress,
    "apt": _apt,
}


def outputs(each: int = 4) -> Iterator[Source]:
    """A few of every program."""
    for program, lines in PROGRAMS.items():
        for number in range(each):
            rng = Random(f"{program}/{number}")
            text = "\n".join(lines(rng, rng.choice((6, 20, 100, 900)))) + "\n"
            yield Source(Kind.COMMAND_OUTPUT, f"{program} (made)", f"{program}/{number}", text.encode())
