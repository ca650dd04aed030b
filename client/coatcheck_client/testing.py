"""An assertion for the tests of an agent: what a model's answer cites appears in what the model read."""

from collections.abc import Iterable

from coatcheck_client.citations import check_answer
from coatcheck_client.sync import Client


def assert_cited(
    answer: str, sources: Iterable[str], client: Client | None = None, *, exact: bool = False, deadline: float = 30.0
) -> None:
    """Fails if a URL, quotation or artifact ID of an answer appears in no source, or could not be checked.

    Args:
        answer: the model's final answer.
        sources: the texts of tool results, as the model read them.
        client: a client whose service looks for quotations in whole artifacts; None: only the sources are
            searched, and a quotation that could stand in an artifact counts as not checked.
        exact: whether an `inexact` citation fails as well: another address of a page, similar words, another section.
        deadline: seconds after which a client checks nothing more, and the rest counts as not checked.

    Raises:
        AssertionError: with the line, the text and the reason for each failure.
    """
    __tracebackhide__ = True  # so that pytest shows the line of the test
    report = client.check_answer(answer, sources, deadline=deadline) if client else check_answer(answer, sources)
    if failures := report.describe("unsupported", "unchecked", *(("inexact",) if exact else ())):
        raise AssertionError(f"The answer cites what is not in its sources, or could not be checked:\n{failures}")
