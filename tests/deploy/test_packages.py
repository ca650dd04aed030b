"""Both distributions build, from the tree and from their own sdists, and work where only what they require is there."""

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import httpx
import pytest
from packaging.requirements import Requirement

from media.formats import pdf, workbook
from support.archives import unpack
from support.service import start

ROOT = Path(__file__).parents[2]
AWAY = "import coatcheck_client as c; r = c.Client('http://127.0.0.1:1', retries=c.Retries(attempts=1)).put('x')"


def _build(project: Path, target: str, out: Path) -> Path:
    """Build one distribution without a network; returns the file."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out)],
        cwd=project,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (made,) = out.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return made


def _required(name: str, found: dict[str, metadata.Distribution]) -> dict[str, metadata.Distribution]:
    """What a distribution requires here, without extras, and what that requires."""
    for text in metadata.requires(name) or ():
        need = Requirement(text)
        extras = need.extras or {""}
        if need.name in found or need.name.startswith("coatcheck"):
            continue
        if need.marker is None or need.marker.evaluate({"extra": ""}):
            found[need.name] = metadata.distribution(need.name)
            _required(need.name, found)
            for extra in extras - {""}:
                for more in metadata.requires(need.name) or ():
                    wanted = Requirement(more)
                    if wanted.marker is not None and wanted.marker.evaluate({"extra": extra}):
                        found.setdefault(wanted.name, metadata.distribution(wanted.name))
    return found


def _environment(place: Path, *wheels: Path, **needs: str) -> Path:
    """A new environment with these wheels and exactly what they require; returns its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True, timeout=120)
    (packages,) = (place / "lib").glob("python*/site-packages")
    for wheel in wheels:
        subprocess.run([sys.executable, "-m", "zipfile", "-e", str(wheel), str(packages)], check=True, timeout=120)
    found: dict[str, metadata.Distribution] = {}
    for name in needs.values():
        _required(name, found)
    for distribution in found.values():
        for file in distribution.files or ():
            top = file.parts[0]
            if top not in {"..", "__pycache__"} and not (packages / top).exists():
                (packages / top).symlink_to(str(distribution.locate_file(top)))
    return place / "bin" / "python"


@pytest.fixture(scope="module", params=["tree", "sdist"])
def wheels(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheels of the client and of the service, built from the tree, or from what their sdists unpack to."""
    made: list[Path] = []
    for project in (ROOT / "client", ROOT):
        place = tmp_path_factory.mktemp(f"{project.name}-{request.param}")
        source = project
        if request.param == "sdist":
            unpack(_build(project, "sdist", place), place / "unpacked")
            (source,) = (place / "unpacked").iterdir()
        made.append(_build(source, "wheel", place / "wheel"))
    return made[0], made[1]


IMPORTED = """
import importlib
for name in {names}:
    try:
        importlib.import_module("coatcheck_client.integrations." + name.replace("-", "_"))
    except ImportError as error:
        print(error)
"""
OPENED = """
import coatcheck_client as c
try:
    c.embedded("data").__enter__()
except c.EmbeddedError as error:
    print(error)
"""


def _run(python: Path, code: str) -> str:
    done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_client_works_with_what_it_requires_and_nothing_else(wheels: tuple[Path, Path], tmp_path: Path) -> None:
    python = _environment(tmp_path / "environment", wheels[0], client="coatcheck-client")
    assert _run(python, f"{AWAY}; print(r.text, r.stored, c.declarations('anthropic')[0]['name'])") == (
        "x False read_artifact\n"
    )
    frameworks = sorted(set(metadata.metadata("coatcheck-client").get_all("Provides-Extra") or ()) - {"embedded"})
    sentences = _run(python, IMPORTED.format(names=frameworks)).splitlines()
    assert len(frameworks) > 14
    for name, sentence in zip(frameworks, sentences, strict=True):
        assert re.fullmatch(
            rf"This integration needs its extra: pip install 'coatcheck-client\[{name}\]' \(.+\)\.", sentence
        )
    assert _run(python, OPENED) == "The service is not installed: pip install 'coatcheck-client[embedded]'\n"
    loaded = _run(python, f"{AWAY}; import sys; print(*{{n.partition('.')[0] for n in sys.modules}})").split()
    assert not {"coatcheck", "litestar", "sqlalchemy", "mcp"} & set(loaded)


def test_the_service_serves_with_what_it_requires_and_names_the_extra_of_what_it_lacks(
    wheels: tuple[Path, Path], tmp_path: Path
) -> None:
    python = _environment(tmp_path / "environment", *wheels, client="coatcheck-client", service="coatcheck")
    command = (str(python), "-I", "-m", "coatcheck")
    service = start(tmp_path / "data", command=command)
    try:
        put = f"import coatcheck_client as c; print(c.Client({service.url!r}).put('line\\n' * 9000).text)"
        card = _run(python, put)
        assert re.match(r"\[art_[0-9]{18} · ", card)
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


def test_both_are_of_one_release() -> None:
    version = metadata.version("coatcheck-client")
    assert metadata.version("coatcheck") == version
    assert f"coatcheck-client=={version}" in (metadata.requires("coatcheck") or ())
