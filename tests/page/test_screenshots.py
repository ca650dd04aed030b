"""The pictures of the page that the documentation shows: made here, small, and all of them there.

`make screenshots` writes them into `docs/images`; without it they are made all the same, and thrown away.
"""

import re
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from page.friendly import NIGHT, RELEASE, friendly
from page.windows import opened

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
WIDTH = 1280
MOST_BYTES = 150_000
PICTURES = {
    "overview": ("/", 900),
    "artifacts": ("/ui/artifacts?limit=12", 740),
    "artifact": ("/ui/artifacts/{tests}", 960),
    "session": (f"/ui/session?name={RELEASE}", 900),
    "policies": ("/ui/policies?explain=1&kind=log", 800),
    "plan": ("/ui/retention", 900),
}
"""The address of each picture's page, and how many pixels of its height are shown."""
DRAWN = {ROOT / "docs" / "card.svg"}
"""What `make picture` draws."""


@pytest.fixture(scope="module")
def page(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Page, dict[str, str]]]:
    with friendly(tmp_path_factory.mktemp("friendly")) as (service, kept, key):
        window = opened(chromium, service, color_scheme="light")
        window.goto("/ui/login")
        window.get_by_label("Key").fill(key)
        window.keyboard.press("Enter")
        window.wait_for_url(f"{service.url}/")
        yield window, kept
        window.context.close()


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_of_the_documentation_is_made(
    name: str, page: tuple[Page, dict[str, str]], tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    window, kept = page
    path, height = PICTURES[name]
    window.set_viewport_size({"width": WIDTH, "height": height})
    window.goto(path.format(**kept))
    if name == "plan":
        form = window.get_by_role("form", name="Plan a job")
        form.locator("[name=job]").select_option("session")
        form.get_by_label("Session", exact=True).fill(NIGHT)
        form.get_by_role("button", name="Plan").click()
    if name == "session":
        window.get_by_role("row").filter(has_text="compaction").locator("summary").click()
    assert window.locator(".problem").all_inner_texts() == []
    target = (pytestconfig.getoption("screenshots") or tmp_path) / f"{name}.png"
    window.screenshot(path=target)
    made = target.read_bytes()
    assert struct.unpack(">II", made[16:24]) == (WIDTH, height)
    assert len(made) < MOST_BYTES


def shown() -> dict[Path, set[str]]:
    """The pictures that pages show, each with its descriptions."""
    found: dict[Path, set[str]] = {}
    for written in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for alt, target in re.findall(r"!\[([^\]]*)\]\(([^)\s]+)\)", written.read_text()):
            found.setdefault((written.parent / target).resolve(), set()).add(alt)
    return found


def test_pages_show_the_pictures_that_a_command_makes_and_no_other() -> None:
    made = {IMAGES / f"{name}.png" for name in PICTURES}
    assert shown().keys() == made | DRAWN
    assert set(IMAGES.iterdir()) == made


def test_every_picture_is_small_and_described_for_those_who_do_not_see_it() -> None:
    for picture, descriptions in shown().items():
        assert picture.stat().st_size < MOST_BYTES, picture
        assert all(len(each) > 30 for each in descriptions), picture
