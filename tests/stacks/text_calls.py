"""Calls and results that a framework writes into the texts of messages, as smolagents does it."""

import ast
import re
from typing import Any, Final

_CALLS: Final = "Calling tools:\n"
_BEGIN: Final = r"^(?:Observation:\n|(?:Call id: \S+\n)?Error:\n)"
_RESULT: Final = re.compile(rf"{_BEGIN}.*?(?={_BEGIN}|\Z)", re.MULTILINE | re.DOTALL)


def results_in(text: str) -> list[str]:
    """Returns what tools said: one text for each turn of the model, also for one that failed."""
    return _RESULT.findall(text)


def calls_in(text: str) -> list[dict[str, Any]]:
    """Returns the functions that were called, with their names and arguments."""
    _, found, written = text.partition(_CALLS)
    return [call["function"] for call in ast.literal_eval(written)] if found else []
