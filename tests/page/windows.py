"""Windows of a browser, and walking through a page with the keyboard alone."""

import re
from collections.abc import Mapping
from typing import Any

from playwright.sync_api import Browser, Locator, Page

from support.service import Service

_SAYS = """() => {
  const on = document.activeElement;
  const label = on.labels?.length ? on.labels[0].innerText : on.getAttribute("aria-label") ?? on.innerText;
  return [label.trim().split("\\n")[0], on === document.body, getComputedStyle(on).outlineStyle];
}"""


def opened(chromium: Browser, service: Service, **context: Any) -> Page:  # noqa: ANN401 - playwright's options
    """A window on a service, with a cookie jar of its own."""
    made = chromium.new_context(base_url=service.url, **context)
    made.set_default_timeout(10_000)
    return made.new_page()


def follow(control: Locator) -> None:
    """Clicks what leads to another page, and waits for that page: what is read next is never read from the old one."""
    with control.page.expect_navigation():
        control.click()


def send(page: Page, form: str, button: str, values: Mapping[str, str | bool]) -> Locator:
    """Fills in a form and sends it with a button; returns the form of that name on the page that follows.

    `values` are by the beginnings of labels: texts, and True for boxes to be checked.
    """
    found = page.get_by_role("form", name=form)
    for label, value in values.items():
        field = found.get_by_label(re.compile(rf"^\s*{re.escape(label)}\b"))
        _ = field.fill(value) if isinstance(value, str) else field.check()
    follow(found.get_by_role("button", name=button))
    return found


def tab_to(page: Page, label: str) -> None:
    """Presses Tab until the element with a label has the focus; each on the way shows that it has it."""
    passed: list[str] = []
    while True:
        page.keyboard.press("Tab")
        said, end, outline = page.evaluate(_SAYS)
        assert not end, f"Tab never arrives at {label!r}; it passes {passed}"
        assert outline != "none", f"nothing shows that {said!r} has the focus"
        if said == label:
            return
        passed.append(said)
