"""What this service leaves in a history, and how it is known again: markers, placeholders, notices, fallback cuts.

Known again exactly and as a whole, never by a phrase somewhere in a text: what is recognised is left as it is, so that
a history that was compacted stays as it is when it is compacted again. Cards and answers of the declared tool are
recognised where they are made (core/card/recognition.py, core/read_answer.py).
"""

import re
from typing import Final

from coatcheck.core.card.recognition import is_card
from coatcheck.core.ids import is_id
from coatcheck.core.read_answer import MAX_CHARS, is_read_answer

_MARKER: Final = re.compile(
    r"\[(?:… [0-9,]+ characters|[-!#$&^_.+a-zA-Z0-9/]{1,100}, [0-9,]+ bytes), "
    r"stored as (art_[0-9]{18}); omitted from history, do not copy\]"
)
_IDS: Final = re.compile(r"art_[0-9]{18}")
_OWN_TOOLS: Final = ("read_artifact", "list_artifacts")
_LONGEST_MARKER: Final = 300


def marker(characters: int, artifact_id: str) -> str:
    """Stands for a text that was taken out of a history."""
    return f"[… {characters:,} characters, stored as {artifact_id}; omitted from history, do not copy]"


def placeholder(media_type: str, size: int, artifact_id: str) -> str:
    """Stands for an image or a file that was taken out of a history."""
    shown = media_type if re.fullmatch(r"[-!#$&^_.+a-zA-Z0-9/]{1,100}", media_type) else "file"
    return f"[{shown}, {size:,} bytes, stored as {artifact_id}; omitted from history, do not copy]"


def is_marker(text: str) -> bool:
    """Whether a text is one of our markers or placeholders and nothing else."""
    if len(text) > _LONGEST_MARKER:
        return False
    found = _MARKER.fullmatch(text)
    return found is not None and is_id(found[1])


def marker_in(text: str) -> str | None:
    """The first marker inside a text, for telling a model that it copied one into a new call; None without any."""
    found = _MARKER.search(text) if "omitted from history, do not copy]" in text else None
    return found[0] if found is not None and is_id(found[1]) else None


def is_ours(text: str) -> bool:
    """Whether a text is a card, a marker or a placeholder of ours."""
    return is_marker(text) or is_card(text)


def is_read(text: str, tool: str | None) -> bool:
    """Whether a tool output is what the declared tool answered; by its form, or by the tool's name up to its size."""
    return is_read_answer(text) or (len(text) <= MAX_CHARS and is_own_tool(tool))


def is_own_tool(name: str | None) -> bool:
    """Whether a tool is one of ours, also under the prefix that hosts give to tools of a server."""
    return name is not None and (name in _OWN_TOOLS or name.endswith(tuple(f"__{own}" for own in _OWN_TOOLS)))


def ids_in(text: str) -> list[str]:
    """The artifact IDs in a text, each once, in order; only those whose check digits are right."""
    return [found for found in dict.fromkeys(_IDS.findall(text)) if is_id(found)]
