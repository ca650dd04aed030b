"""Environments for programs that cannot share ours: made where they are missing, kept until they change."""

import hashlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
ENVIRONMENTS: Final = ROOT / ".stacks"
UV: Final = ROOT / ".uv" / "bin" / "uv"


def environment(
    name: str, requirements: Path, *, packages: Sequence[str] = (), editable: Path | None = None, fresh: bool = False
) -> Path | None:
    """The Python of an environment; None where its requirements cannot be installed together.

    Args:
        name: of its folder.
        requirements: a file of requirements.
        packages: further ones.
        editable: a source tree that is installed as it stands.
        fresh: whether to resolve again, for what was released since.
    """
    home = ENVIRONMENTS / name
    inputs = requirements.read_bytes() + repr(tuple(packages)).encode()
    if editable is not None:
        inputs += (editable / "pyproject.toml").read_bytes()
    stamp, wanted = home / "stamp", hashlib.sha256(inputs).hexdigest()
    python = home / "bin" / "python"
    if not fresh and stamp.exists() and stamp.read_text() == wanted:
        return python
    subprocess.run([UV, "venv", "--quiet", "--clear", "--python", sys.executable, home], check=True)
    install = [UV, "pip", "install", "--quiet", "--system-certs", "--python", python]
    tree = [] if editable is None else ["--editable", editable]
    done = subprocess.run([*install, *tree, *packages, "-r", requirements], check=False)
    if done.returncode:
        return None
    stamp.write_text(wanted)
    return python
