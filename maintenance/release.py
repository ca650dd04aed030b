"""Check that the tree can be released, build and try both distributions, and print what a person then publishes.

    python maintenance/release.py

Each check that fails is a sentence that says what to do. All of them are printed, and the exit code is 1. The files are
in `dist/`; nothing is tagged, pushed or uploaded.
"""

import hashlib
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from sbom import FOLDERS, SERVICE, find_stale_bills

ROOT: Final = Path(__file__).parents[1]
UV: Final = ROOT / ".uv" / "bin" / "uv"
URLS: Final = ("Documentation", "Source", "Changelog", "Issues")
"""What an index links to beside a distribution."""
VERSIONS: Final = {
    "pyproject.toml": r'^  "coatcheck-client==(.*)",',
    "client/pyproject.toml": r'^version = "(.*)"$',
    "client/coatcheck_client/__init__.py": r'^__version__ = "(.*)"$',
    "service/coatcheck/__init__.py": r'^__version__ = "(.*)"$',
    "deploy/kubernetes.yaml": r"image: \S+/coatcheck:(\S+)$",
    "openapi/openapi.json": r'^    "version": "(.*)",$',
    "tests/golden/cards.json": r'^ "version": "(.*)",$',
}
"""Where the version stands, besides the one of the service in `pyproject.toml`."""


def check_tree(root: Path) -> Iterator[str]:
    """Yields a sentence for each reason why the tree at `root` cannot be released."""
    version = read_version(root)
    for file, pattern in VERSIONS.items():
        versions = set(re.findall(pattern, (root / file).read_text(), re.MULTILINE))
        if versions != {version}:
            names = " and ".join(sorted(versions)) or "no version"
            yield f"{file} has {names}, and the service's is {version}: edit it, or run `make openapi golden`."
    yield from _check_changelog((root / "CHANGELOG.md").read_text(), version)
    if files := _run("git", "status", "--porcelain", cwd=root).splitlines():
        yield f"The commit is not all there is ({len(files)}, among them {files[0][3:]}): commit or remove the rest."
    if not _gives_openapi(root):
        yield "openapi/openapi.json is not what the code gives: run `make openapi reference`."
    golden = json.loads((root / "tests/golden/cards.json").read_text())
    engine = re.findall(r"^ENGINE = (.*)$", (root / "service/coatcheck/core/artifact.py").read_text(), re.MULTILINE)
    if engine != [str(golden["engine"])] or golden["engine"] != golden["released"]:
        yield (
            f"ENGINE is {', '.join(engine)}, the engine of tests/golden/cards.json {golden['engine']}, and that of the "
            f"release {golden['released']}: raise the version, then run `make golden`."
        )
    for bill in find_stale_bills(root):
        yield f"{bill} is not what the tree says: run `make sbom`."
    for folder in FOLDERS.values():
        urls = tomllib.loads((root / folder / "pyproject.toml").read_text())["project"].get("urls", {})
        if missing := [name for name in URLS if not urls.get(name, "").startswith("https://")]:
            yield (
                f"{Path(folder, 'pyproject.toml')} has no {', '.join(missing)}: name in [project.urls] where the "
                "project is published."
            )


def read_version(root: Path) -> str:
    """The version of the tree at `root`."""
    version: str = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    return version


def build_twice(root: Path, target: Path) -> Iterator[str]:
    """Builds both distributions into `target`, and again from its commit; yields a sentence for each other file."""
    with tempfile.TemporaryDirectory() as folder:
        tree, again = Path(folder, "tree"), Path(folder, "again")
        _run("git", "clone", "--quiet", root, tree)
        for source, files in ((root, target), (tree, again)):
            for project in FOLDERS.values():
                _run(sys.executable, "-m", "hatchling", "build", "-d", files, cwd=source / project)
        for file in list_files(target):
            if not (again / file.name).exists() or (again / file.name).read_bytes() != file.read_bytes():
                yield f"{file.name} is another one when the commit is built elsewhere: find what is not in the commit."


def list_files(target: Path) -> list[Path]:
    """The wheels and sdists in a folder; the client's come before the service's, which require them."""
    return sorted((*target.glob(f"{SERVICE}*.whl"), *target.glob(f"{SERVICE}*.tar.gz")), reverse=True)


def make_environment(place: Path, python: str, *needs: str | Path) -> Path:
    """Makes a new environment that has what is needed and nothing else; returns its interpreter.

    Args:
        place: where it will be.
        python: an interpreter of the Python that it will have.
        needs: distributions, and options of the installer.

    Raises:
        subprocess.CalledProcessError: not everything can be installed together; `stderr` says why.
    """
    _run(UV, "venv", "--quiet", "--clear", "--python", python, place)
    _run(UV, "pip", "install", "--quiet", "--system-certs", "--python", place, *needs)
    _run(UV, "pip", "check", "--python", place)
    return place / "bin" / "python"


def paste_first_command(command: Sequence[str | Path], home: Path) -> str:
    """Starts the service in the folder `home`, and pastes what it says there into a shell.

    Returns:
        what the pasted command prints: a card. Empty if the service does not start.

    Raises:
        subprocess.CalledProcessError: the pasted command fails.
    """
    serve = [*command, "serve", "--port", "0", "--data", home / "data"]
    with subprocess.Popen(serve, cwd=home, stdout=subprocess.PIPE, text=True) as service:  # noqa: S603 - our own
        try:
            lines = (line for line in service.stdout or () if line.startswith("  "))
            return _run("bash", "-c", next(lines, ""), cwd=home)
        finally:
            service.terminate()


def _check_changelog(text: str, version: str) -> Iterator[str]:
    sections = dict(re.findall(r"^## (.*)\n((?:(?!## ).*\n?)*)", text, re.MULTILINE))
    if sections.get("Unreleased", "").strip():
        yield "CHANGELOG.md has changes below `## Unreleased`: move them below a section of the version."
    dated = (title for title in sections if re.fullmatch(rf"{re.escape(version)} - \d{{4}}-\d\d-\d\d", title))
    if not any(sections[title].strip() for title in dated):
        yield f"CHANGELOG.md does not say what changed in this version: write `## {version} - YYYY-MM-DD`."


def _gives_openapi(root: Path) -> bool:
    """Whether the code of the tree at `root` gives its document."""
    done = subprocess.run(
        [sys.executable, "-m", "coatcheck", "openapi", "--check", "openapi/openapi.json"],
        cwd=root,
        env={"PYTHONPATH": f"{root / 'service'}:{root / 'client'}"},
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


def _run(*command: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True)  # noqa: S603 - our own
    return done.stdout


def _try_wheels(wheels: Sequence[Path]) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        python = make_environment(home / "environment", sys.executable, *wheels)
        if not (card := paste_first_command([python.with_name("coatcheck")], home)).startswith("[art_"):
            yield f"The first command that the service shows prints no card, but {card!r}: start it from the wheels."


def main() -> None:
    """Check, build, try, and say what to publish."""
    target = ROOT / "dist"
    for file in list_files(target):
        file.unlink()
    sentences = list(check_tree(ROOT))
    try:
        sentences += build_twice(ROOT, target)
        sentences += _try_wheels([file for file in list_files(target) if file.suffix == ".whl"])
    except subprocess.CalledProcessError as error:
        sentences.append(f"`{' '.join(map(str, error.cmd))}` fails: {error.stderr.strip()}")
    if sentences:
        sys.exit("\n".join(["This tree cannot be released:", *(f"- {sentence}" for sentence in sentences)]))
    version = read_version(ROOT)
    for file in list_files(target):
        sys.stdout.write(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(ROOT)}\n")
    sys.stdout.write(f"""
Publish them, and what they were built from:

  git tag --annotate v{version} --message "Coatcheck {version}" && git push origin v{version}
  .uv/bin/uv publish {" ".join(str(file.relative_to(ROOT)) for file in list_files(target))}
  docker build -f deploy/Containerfile -t REGISTRY/coatcheck:{version} . && docker push REGISTRY/coatcheck:{version}
""")


if __name__ == "__main__":
    main()
