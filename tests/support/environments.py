"""Environments for programs that cannot share ours: made where they are missing, kept until they change."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
ENVIRONMENTS: Final = ROOT / ".stacks"
UV: Final = ROOT / ".uv" / "bin" / "uv"


_PIP: Final = """#!/bin/sh
# `pip` of an environment, for commands of a page: what they name of this project is installed from this source tree.
for word do
    shift
    case "$word" in
        coatcheck-client*) set -- "$@" --editable "{root}/client${{word#coatcheck-client}}" ;;
        coatcheck|coatcheck\\[*) set -- "$@" --editable "{root}/client" --editable "{root}${{word#coatcheck}}" ;;
        *) set -- "$@" "$word" ;;
    esac
done
exec {uv} pip "$@" --quiet --system-certs --python {python}
"""
_NPM: Final = """#!/bin/sh
exec {npm} "$@" --silent --prefix {home}
"""


def environment(
    name: str, requirements: Path, *, packages: Sequence[str] = (), script: str = "", fresh: bool = False
) -> Path | None:
    """The Python of an environment; None where its requirements cannot be installed together.

    Args:
        name: of its folder.
        requirements: a file of requirements, which need not exist.
        packages: further ones.
        script: commands of a shell that install something, with `pip` and `npm install --global` of the environment.
        fresh: whether to resolve again, for what was released since.
    """
    home = ENVIRONMENTS / name
    needed = requirements.read_text() if requirements.exists() else ""
    inputs = repr((needed, tuple(packages), script))
    if script:
        inputs += (ROOT / "pyproject.toml").read_text() + (ROOT / "client" / "pyproject.toml").read_text()
    stamp, wanted = home / "stamp", hashlib.sha256(inputs.encode()).hexdigest()
    python = home / "bin" / "python"
    if not fresh and stamp.exists() and stamp.read_text() == wanted:
        return python
    subprocess.run([UV, "venv", "--quiet", "--clear", "--python", sys.executable, home], check=True)
    if script and subprocess.run(["bash", "-euc", script], env=_shell(home), check=False).returncode:
        return None
    install = [UV, "pip", "install", "--quiet", "--system-certs", "--python", python]
    if needed or packages:
        listed = ["-r", requirements] if needed else []
        if subprocess.run([*install, *packages, *listed], check=False).returncode:
            return None
    stamp.write_text(wanted)
    return python


def _shell(home: Path) -> dict[str, str]:
    """The variables of a shell whose `pip` and `npm` install into an environment."""
    programs = home / "installers"
    programs.mkdir()
    given = {"root": ROOT, "uv": UV, "python": home / "bin" / "python", "home": home, "npm": shutil.which("npm")}
    for name, text in {"pip": _PIP, "npm": _NPM}.items():
        (programs / name).write_text(text.format(**given))
        (programs / name).chmod(0o755)
    return {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}  # noqa: TID251 - a user's shell
