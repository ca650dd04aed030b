"""Both distributions are complete, build to the same bytes anywhere, and work where only what they require is there."""

import functools
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import release
from packaging.metadata import Metadata
from sbom import CLIENT, FOLDERS, SERVICE, locate_bill

from media.formats import pdf, workbook
from support.archives import unpack
from support.pythons import OWN, VERSIONS, find_interpreter
from support.service import start
from support.used_servers import used

ROOT: Final = Path(__file__).parents[2]
AWAY: Final = "import coatcheck_client as c; r = c.Client('http://127.0.0.1:1', retries=c.Retries(attempts=1)).put('x')"
IMPORTED: Final = """
import importlib
for name in {names}:
    try:
        importlib.import_module("coatcheck_client.integrations." + name.replace("-", "_"))
    except ImportError as error:
        print(error)
"""
OLDEST: Final = "3.10"
"""The Python on which only the client runs."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel and the sdist of each distribution, built from the tree, by the distribution's name and the suffix."""
    place = tmp_path_factory.mktemp("built")
    return {name + file.suffix: file for name in FOLDERS for file in _build(ROOT / FOLDERS[name], place / name)}


def _build(project: Path, place: Path) -> list[Path]:
    """Builds an sdist and a wheel, without a network."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(place)]
    subprocess.run(command, cwd=project, check=True, capture_output=True, timeout=120)
    return release.list_files(place)


def _read(file: Path, ending: str) -> str:
    """The text of the member of a wheel or an sdist whose path ends so."""
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as wheel:
            (name,) = (name for name in wheel.namelist() if name.endswith(ending))
            return wheel.read(name).decode()
    with tarfile.open(file) as sdist:
        (name,) = (name for name in sdist.getnames() if name.endswith(ending))
        member = sdist.extractfile(name)
        assert member is not None
        return member.read().decode()


@pytest.fixture(scope="module")
def service_environments(built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Returns the interpreter of an environment of a Python with both wheels, made when it is asked for first."""
    wheels = [built[f"{name}.whl"] for name in FOLDERS]

    @functools.cache
    def make_environment(version: str) -> Path:
        return _environment(tmp_path_factory.mktemp(version), version, *wheels)

    return make_environment


def _environment(place: Path, version: str, *wheels: Path) -> Path:
    """A new environment of a Python with these wheels and what they require, as the lock has it; its interpreter."""
    interpreter = sys.executable if version == OWN else find_interpreter(version)
    if interpreter is None:
        used(f"packages: not on Python {version}, which is not on this machine")
        pytest.skip(f"Python {version} is not on this machine")
    used(f"packages: Python {version}")
    needs = ("--constraint", ROOT / "requirements.lock", *wheels)
    try:
        return release.make_environment(place, interpreter, "--offline", *needs)
    except subprocess.CalledProcessError:  # not everything has been installed on this machine before
        return release.make_environment(place, interpreter, *needs)


def _run(python: Path, code: str) -> str:
    done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _pins(bill: dict[str, Any]) -> dict[str, str]:
    """The versions of what a bill of materials says is required, by name."""
    return {part["name"]: part["version"] for part in bill["components"] if part["scope"] == "required"}


def _installed(python: Path) -> dict[str, str]:
    """The versions of what is in an environment, by name."""
    command = [release.UV, "pip", "list", "--format", "json", "--python", python]
    done = subprocess.run(command, capture_output=True, check=True, timeout=60)
    return {package["name"]: package["version"] for package in json.loads(done.stdout)}


# ------------------------------------------------------------------------------------------------- what they say


@pytest.mark.parametrize("name", FOLDERS)
def test_a_distribution_is_the_same_bytes_when_it_is_built_elsewhere(
    name: str, built: dict[str, Path], tmp_path: Path
) -> None:
    unpack(built[f"{name}.gz"], tmp_path)
    (source,) = tmp_path.iterdir()
    for file in _build(source, tmp_path / "again"):
        assert file.read_bytes() == built[name + file.suffix].read_bytes(), file.name


@pytest.mark.parametrize("suffix", [".whl", ".gz"])
@pytest.mark.parametrize("name", FOLDERS)
def test_the_metadata_is_valid_and_complete(name: str, suffix: str, built: dict[str, Path]) -> None:
    file = built[name + suffix]
    stated = Metadata.from_email(_read(file, "METADATA" if suffix == ".whl" else "0/PKG-INFO"), validate=True)
    assert (stated.name, str(stated.version)) == (name, metadata.version(name))
    assert (stated.license_expression, stated.license) == ("Apache-2.0", None)
    assert stated.description_content_type == "text/markdown"
    assert stated.description == (ROOT / FOLDERS[name] / "README.md").read_text()
    assert stated.summary
    assert stated.keywords
    classifiers = stated.classifiers or []
    assert not [text for text in classifiers if text.startswith("License")], "an index refuses both"
    pythons = re.findall(r"^Programming Language :: Python :: (3\.\d+)$", "\n".join(classifiers), re.MULTILINE)
    assert pythons == [*VERSIONS] if name == SERVICE else {OLDEST, *VERSIONS} < {*pythons}
    assert stated.requires_python is not None
    assert all(f"{python}.0" in stated.requires_python for python in pythons)
    for licence in stated.license_files or ():
        assert _read(file, f"/{licence}") == (ROOT / FOLDERS[name] / licence).read_text()
    assert set(stated.license_files or ()) == {"LICENSE", "NOTICE"} & {p.name for p in (ROOT / FOLDERS[name]).iterdir()}
    assert _read(file, f"{name.replace('-', '_')}/py.typed") == ""
    assert _read(file, f"/{name}.cdx.json") == (ROOT / locate_bill(name)).read_text()


def test_the_service_requires_the_client_of_its_release() -> None:
    assert f"{CLIENT}=={metadata.version(SERVICE)}" in (metadata.requires(SERVICE) or ())


@pytest.mark.parametrize("name", FOLDERS)
def test_a_bill_of_materials_is_whole(name: str) -> None:
    bill = json.loads((ROOT / locate_bill(name)).read_text())
    subject = bill["metadata"]["component"]
    parts = {part["bom-ref"]: part for part in bill["components"]}
    assert (bill["specVersion"], subject["purl"]) == ("1.6", f"pkg:pypi/{name}@{metadata.version(name)}")
    assert len(parts) == len(bill["components"])
    edges = {edge["ref"]: edge["dependsOn"] for edge in bill["dependencies"]}
    assert edges.keys() == {subject["bom-ref"], *parts}
    waiting, reached = [subject["bom-ref"]], {subject["bom-ref"]}
    while waiting:
        more = {ref for ref in edges[waiting.pop()] if ref not in reached}
        waiting += more
        reached |= more
    assert reached == edges.keys(), "everything is there because something asks for it"
    for part in parts.values():
        assert part["licenses"], part["name"]
        assert bool(part["hashes"]) is (part["name"] != CLIENT), part["name"]
    contents = {part["purl"].partition("@")[0] for part in subject.get("components", ())}
    assert len(contents) == (3 if name == SERVICE else 0)


# ------------------------------------------------------------------------------------------------- what they do


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_environment_and_two_commands_give_a_card(
    version: str, service_environments: Callable[[str], Path], tmp_path: Path
) -> None:
    python = service_environments(version)
    bill = json.loads((ROOT / locate_bill(SERVICE)).read_text())
    assert _installed(python) == {**_pins(bill), SERVICE: metadata.version(SERVICE)}
    card = release.paste_first_command([python.with_name("coatcheck")], tmp_path)
    assert re.match(r"\[art_[0-9]{18} · ", card)


@pytest.mark.parametrize("version", [OLDEST, *VERSIONS])
def test_the_client_works_with_what_it_requires_and_nothing_else(
    version: str, built: dict[str, Path], tmp_path: Path
) -> None:
    python = _environment(tmp_path / "environment", version, built[f"{CLIENT}.whl"])
    assert _run(python, f"{AWAY}; print(r.text, r.stored, c.declarations('anthropic')[0]['name'])") == (
        "x False read_artifact\n"
    )
    frameworks = sorted(set(metadata.metadata(CLIENT).get_all("Provides-Extra") or ()) - {"embedded"})
    sentences = _run(python, IMPORTED.format(names=frameworks)).splitlines()
    assert len(frameworks) > 14
    for framework, sentence in zip(frameworks, sentences, strict=True):
        assert re.fullmatch(
            rf"This integration needs its extra: pip install 'coatcheck-client\[{framework}\]' \(.+\)\.", sentence
        )
    loaded = _run(python, f"{AWAY}; import sys; print(*{{n.partition('.')[0] for n in sys.modules}})").split()
    assert not {"coatcheck", "litestar", "sqlalchemy", "mcp"} & set(loaded)
    embed = f"import coatcheck_client as c\ntry: c.embedded({str(tmp_path / 'data')!r}).__enter__()\n"
    refusal = _run(python, f"{embed}except c.EmbeddedError as error: print(error)")
    assert ("needs Python 3.11" if version == OLDEST else "pip install 'coatcheck-client[embedded]'") in refusal


def test_the_service_serves_with_what_it_requires_and_names_the_extra_of_what_it_lacks(
    service_environments: Callable[[str], Path], tmp_path: Path
) -> None:
    command = (str(service_environments(OWN)), "-I", "-m", "coatcheck")
    service = start(tmp_path / "data", command=command)
    try:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        answer = httpx.post(f"{service.url}/mcp", json=message, trust_env=False)
        page = httpx.get(f"{service.url}/docs", trust_env=False).text
        for name in re.findall(r'(?:src|href)="(/[^"]+)"', page):  # the reference is whole, from the wheel
            assert httpx.get(f"{service.url}{name}", trust_env=False).status_code == 200
        assert "/docs/swagger-ui-bundle.js" in page
        error = answer.json()["error"]
        assert (answer.status_code, error["data"]["code"]) == (404, "route_not_found")
        assert "pip install 'coatcheck[mcp]'" in error["message"]
        for payload in (pdf("Low tide"), workbook("Prices")):
            receipt = service.post(payload)
            text = service.content(receipt["id"], "text")
            assert b"pip install 'coatcheck[documents]'" in text
            assert text.decode().strip() in receipt["text"]
    finally:
        assert service.stop() == 0
    for extra, status, arguments in (
        ("mcp", 2, ["mcp"]),
        ("mcp", 2, ["mcp-wrap", "http://127.0.0.1:1/mcp"]),
        ("telemetry", 4, ["serve", "--port", "0", "--data", str(tmp_path / "other")]),
    ):
        env = {"COATCHECK_OTLP_ENDPOINT": "http://127.0.0.1:1", "PATH": "/usr/bin:/bin"}
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, timeout=60, env=env)
        assert (done.returncode, f"pip install 'coatcheck[{extra}]'" in done.stderr) == (status, True), done.stderr
