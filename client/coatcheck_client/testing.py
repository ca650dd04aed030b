"""Asserts that what a model's answer cites stands in what the model read: for the tests of an agent."""

from collections.abc import Iterable

from coatcheck_client.citations import check_answer
from coatcheck_client.sync import Client


def assert_cited(
    answer: str, sources: Iterable[str], client: Client | None = None, *, exact: bool = False, deadline: float = 30.0
) -> None:
    """Fails if a URL, a quotation or an artifact ID of an answer stands in no source, or could not be checked.

    Args:
        answer: the model's final answer.
        sources: the texts of tool results, as the model read them.
        client: how to reach the service, which looks for quotations in whole artifacts; None: only sources count, and a
            quotation that may stand in an artifact is not checked.
        exact: whether an `inexact` one fails as well: another address of a page, similar words, another section.
        deadline: seconds after which whatever is left is not checked.

    Raises:
        AssertionError: with the line, the text and the reason for each.
    """
    __tracebackhide__ = True  # pytest shows the test's line
    report = client.check_answer(answer, sources, deadline=deadline) if client else check_answer(answer, sources)
    if failures := report.describe("unsupported", "unchecked", *(("inexact",) if exact else ())):
        raise AssertionError(f"The answer cites what is not in its sources, or could not be checked:\n{failures}")
