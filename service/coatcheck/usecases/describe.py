"""Say again what an artifact is: its metadata, and its card at any budget, cut from what was recognised at ingest."""

from concurrent.futures import Executor

from msgspec import Struct

from coatcheck.core import card
from coatcheck.core.artifact import Artifact, Caller, Sample
from coatcheck.core.card import Card
from coatcheck.core.intake import sample_ranges
from coatcheck.core.tokens import Tokenizer
from coatcheck.usecases.card_text import CardText
from coatcheck.usecases.content import OpenContent
from coatcheck.usecases.find import Find
from coatcheck.usecases.pool import in_pool


class Described(Struct, frozen=True):
    """An artifact and its card."""

    artifact: Artifact
    card: Card
    text: str
    """The card as the model reads it."""
    tokens: int
    """Of `text`."""


class Describe:
    """The verb. Reads the two ends of what the card is cut from."""

    def __init__(
        self,
        find: Find,
        open_content: OpenContent,
        tokenizer: Tokenizer,
        pool: Executor,
        card_tokens: int,
        card_text: CardText | None = None,
    ) -> None:
        self._card_text = card_text
        self._find = find
        self._open = open_content
        self._tokenizer = tokenizer
        self._pool = pool
        self._card_tokens = card_tokens

    async def __call__(
        self, caller: Caller, number: int, *, budget: int | None = None, query: str | None = None
    ) -> Described:
        """The artifact and its card at `budget` tokens (64 to 8192; None takes the service's default).

        Raises:
            CoatcheckError: `artifact_gone`, `artifact_not_found`, `integrity`.
        """
        found = await self._find(caller, number, with_bytes=True, with_view=self._card_text is not None)
        a = found.artifact
        content = self._open(found)
        head, tail = sample_ranges(a.measure.size)
        sample = Sample(await content.read(*head), await content.read(*tail), a.measure.size)
        cut, text, tokens = await in_pool(
            self._pool,
            card.cut,
            a.id,
            a.said,
            a.measure,
            a.facts,
            sample,
            budget=self._card_tokens if budget is None else budget,
            query=query,
            tokenizer=self._tokenizer,
            text=None if self._card_text is None else await self._card_text.found(found),
        )
        return Described(a, cut, text, tokens)
