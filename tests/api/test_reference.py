"""The API reference at `/docs`: whole without a network, bound by a strict policy, and open while keys are needed."""

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Generator
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest

from coatcheck.api.reference.routes import NAMES, OPTIONS, SHA256, VERSION, plain
from support.service import Service, serving

ROOT = Path(__file__).parents[2]
LOADS = {"src", "href", "srcset", "action", "data", "poster", "formaction"}


class Page(HTMLParser):
    """What a page loads, and what it runs."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.inline: dict[str, list[str]] = {"script": [], "style": []}
        self._in: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not [name for name, _ in attrs if name.startswith("on") or name == "style"], "the policy forbids it"
        self.loaded += [value or "" for name, value in attrs if name in LOADS]
        self._in = tag if tag in self.inline and "src" not in dict(attrs) else None

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002 - the parser's
        self._in = None

    def handle_data(self, data: str) -> None:
        if self._in is not None:
            self.inline[self._in].append(data)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Generator[Service]:
    """A service that needs keys from the start."""
    with serving(tmp_path_factory.mktemp("data"), require_keys="true") as running:
        yield running


def test_the_page_loads_only_what_the_service_serves(service: Service) -> None:
    assert service.client.get("/v1/artifacts").status_code == 401
    answer = service.client.get("/docs")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    loaded = Page(answer.text).loaded
    assert {f"/docs/{name}" for name in NAMES} < set(loaded)
    assert not [url for url in loaded if not url.startswith(("/docs/", "data:,"))]
    assert "://" not in answer.text
    for url in loaded:
        if url.startswith("/"):
            found = service.client.get(url)
            assert (found.status_code, found.headers["x-content-type-options"]) == (200, "nosniff")
            assert found.headers["content-type"].startswith(("text/javascript", "text/css"))


def test_the_policy_allows_what_the_page_holds_and_what_this_service_serves_and_nothing_else(service: Service) -> None:
    answer = service.client.get("/docs")
    policy = {name: words for name, *words in map(str.split, answer.headers["content-security-policy"].split(";"))}
    inline = Page(answer.text).inline
    for kind in ("script", "style"):
        allowed = {word for word in policy.pop(f"{kind}-src") if word != "'self'"}
        assert len(allowed) == 1
        assert allowed == {f"'sha256-{_digest(text)}'" for text in inline[kind]}
    assert policy["default-src"] == policy["frame-ancestors"] == ["'none'"]
    assert {word for words in policy.values() for word in words} == {"'none'", "'self'", "data:"}


def _digest(text: str) -> str:
    return b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_it_shows_the_committed_document_and_the_document_is_open_too(service: Service) -> None:
    options = service.client.get(f"/docs/{OPTIONS}").text
    named = re.search(r'url: "([^"]+)"', options)
    assert named is not None
    assert "validatorUrl: null" in options
    served = service.client.get(named[1])
    assert served.content == (ROOT / "openapi" / "openapi.json").read_bytes()
    assert "/docs" in json.loads(served.content)["paths"]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_the_same_bytes_with_and_without_compression(service: Service, name: str) -> None:
    url = f"{service.url}/docs/{name}"
    packed = httpx.get(url, headers={"accept-encoding": "gzip"}, trust_env=False)
    unpacked = httpx.get(url, headers={"accept-encoding": "identity"}, trust_env=False)
    refused = httpx.get(url, headers={"accept-encoding": "gzip;q=0, *"}, trust_env=False)
    assert (packed.headers["content-encoding"], packed.headers["vary"]) == ("gzip", "Accept-Encoding")
    assert "content-encoding" not in unpacked.headers
    assert "content-encoding" not in refused.headers
    assert packed.content == unpacked.content == refused.content == plain(name)


@pytest.mark.parametrize("name", ["nothing.js", "assets.py", "..%2Fassets.py", "swagger-ui.css.gz"])
def test_nothing_else_is_served_there(service: Service, name: str) -> None:
    assert service.client.get(f"/docs/{name}").json()["code"] == "route_not_found"


def test_the_shipped_files_are_those_that_are_pinned_and_named_in_the_notice() -> None:
    assert {name: hashlib.sha256(plain(name)).hexdigest() for name in SHA256} == SHA256
    notice = (ROOT / "NOTICE").read_text()
    assert f"Swagger UI {VERSION}" in notice
    for name in SHA256:
        assert f"service/coatcheck/api/reference/assets/{name}.gz" in notice
