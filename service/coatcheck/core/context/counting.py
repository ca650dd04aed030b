"""Counts the tokens that a model would read of a body, always in the same way: by items and by their parts.

Texts are counted exactly up to 65,536 characters; longer texts are estimated from a sample spread over the text
(docs/decisions/0004). Parts that a provider never bills as text are not counted as text: an image or a file counts by
its provider's rule, or with a fixed number if no rule applies; ciphertext of reasoning counts by its length; and of the
copies of a call in a message of LangChain, only the first counts. JSON in a string inside JSON is escaped and costs
about a fifth more than its text; arguments and outputs that are such strings get this fifth as an allowance.
"""

from collections.abc import Iterable
from typing import Final, final

from msgspec import Struct
from msgspec.structs import astuple

from coatcheck.core.caches import BoundedCache
from coatcheck.core.context.body.encoding import Value, as_object, dump_value
from coatcheck.core.context.body.model import HistoryCall, HistoryIndex, Item, Media, Opaque, Output, Role
from coatcheck.core.context.body.splice import get, parse_document
from coatcheck.core.context.window import model_of, percent_of
from coatcheck.core.pictures import picture_tokens, provider_of
from coatcheck.core.text.count import TokenMeter
from coatcheck.core.text.long_text import Text, encode_text, head_of, is_text
from coatcheck.core.tokens import Tokenizer

MESSAGE_TOKENS: Final = 3
"""Tokens for the role and separators of a message, a call or an output (LiteLLM's and OpenAI's own estimate)."""
MEDIA_TOKENS: Final = 1_000
"""Tokens of an image with an unknown number of pixels, or a file with an unknown number of pages: between OpenAI's 765
for a large image in high detail and Anthropic's 1,568."""
CHARS_PER_CIPHER_TOKEN: Final = 6
"""Approximate characters of ciphertext per token of the reasoning in it: base64, with keys and tags around it."""
_COUNTED_CHARS: Final = 65_536
"""Maximum characters of a text that is counted exactly; a longer text is estimated from a sample spread over it
(decision 0004), as in cards."""


class ContextTokens(Struct, frozen=True, gc=False):
    """Tokens by what they are for; they add up to `total`."""

    system: int = 0
    tools: int = 0
    user: int = 0
    assistant: int = 0
    calls: int = 0
    outputs: int = 0
    media: int = 0
    opaque: int = 0
    other: int = 0

    @property
    def total(self) -> int:
        """The sum of all fields."""
        return sum(astuple(self))

    @classmethod
    def sum(cls, sizes: Iterable["ContextTokens"]) -> "ContextTokens":
        """Returns the sum of several numbers of tokens, field by field."""
        return cls(*map(sum, zip(*map(astuple, sizes), strict=True)))


@final
class CountCache:
    """A cache of token counts for all requests of a process, since a history is sent again with every turn.

    It contains no texts, only their lengths and 64-bit hashes by a keyed function. Threads may share a cache.
    """

    LEAST = 128
    """Minimum characters of a text whose count is cached: shorter texts are counted as fast as they are looked up."""

    BYTES = 16 * 1024 * 1024
    """Maximum bytes of the cache: about 50,000 counts."""

    def __init__(self) -> None:
        self._counts: BoundedCache[tuple[int, int], int] = BoundedCache("token_counts", self.BYTES)

    def get(self, text: Text) -> int | None:
        """Returns the cached count of a text; None if it is not cached."""
        return self._counts.get((hash(text), len(text)))

    def put(self, text: Text, count: int) -> None:
        """Caches the count of a text."""
        self._counts.put((hash(text), len(text)), count)


@final
class Counter:
    """Counts tokens with one tokenizer, each text only once. Not thread-safe."""

    def __init__(self, tokenizer: Tokenizer, counts: CountCache | None = None) -> None:
        """Creates a counter. The counts in `counts` must be of the same tokenizer; None starts an empty cache."""
        self.tokenizer = tokenizer
        self._counts = counts or CountCache()
        self._short: dict[Text, int] = {}
        self._pieces: dict[Text, int] = {}

    def text(self, text: Text) -> int:
        """Returns the tokens of a text; of a text of more than 65,536 characters, an estimate."""
        if len(text) < CountCache.LEAST:
            count = self._short.get(text)
            if count is None:
                count = self._short[text] = self.tokenizer.count(str(text))
            return count
        count = self._counts.get(text)
        if count is None:
            count = self.tokenizer.count(str(text)) if len(text) <= _COUNTED_CHARS else self._estimate(text)
            self._counts.put(text, count)
        return count

    def _estimate(self, text: Text) -> int:
        meter = TokenMeter(self.tokenizer, exact=0)
        meter.feed(encode_text(text))
        return meter.finish().count

    def json(self, value: Value) -> int:
        """Returns the tokens of a value as JSON."""
        return self.text(value if is_text(value) else dump_value(value))

    def call(self, body: Value, call: HistoryCall) -> int:
        """Returns the tokens of a call with one copy of its arguments."""
        tokens = MESSAGE_TOKENS + self.text(call.name or "")
        if call.sites:
            site = call.sites[0]
            count = self.json(get(body, site.at))
            tokens += estimate_escaped(count) if site.form == "json" else count
        return tokens

    def piece(self, text: Text) -> int:
        """Returns the tokens of a text in an output, with the allowance for escapes if the text is JSON."""
        if head_of(text, 1) not in {"{", "["}:
            return self.text(text)
        count = self._pieces.get(text)
        if count is None:
            plain_count = self.text(text)
            count = self._pieces[text] = (
                estimate_escaped(plain_count)
                if len(text) > _COUNTED_CHARS or parse_document(text) is not None
                else plain_count
            )
        return count

    def output(self, output: Output) -> int:
        """Returns the tokens of an output's texts and unknown parts, without its images."""
        texts = sum(self.piece(piece.text) for piece in output.pieces)
        return MESSAGE_TOKENS + texts + sum(self.json(value) for value in output.data)

    def opaque(self, opaque: Opaque) -> int:
        """Returns the tokens of reasoning and other opaque parts."""
        return self.text(opaque.text) + opaque.blob // CHARS_PER_CIPHER_TOKEN

    def media(self, body: Value, media: Media) -> int:
        """Returns the tokens of an image by its provider's rule, converted into tokens of this tokenizer.

        Returns MEDIA_TOKENS if no rule applies.
        """
        part, model = as_object(media.part), model_of(body)
        tokens = picture_tokens(part, model)
        if tokens is None:
            return MEDIA_TOKENS
        provider = provider_of(part, model)
        return -(-tokens * 100 // percent_of(model, claude=provider == "anthropic", gemini=provider == "gemini"))

    def item(self, body: Value, item: Item) -> ContextTokens:
        """Returns the tokens of an item, by their purpose."""
        words = (
            MESSAGE_TOKENS + sum(self.text(text) for text in item.texts) + sum(self.json(value) for value in item.data)
        )
        pictures = [*item.media, *(one for output in item.outputs for one in output.media)]
        return ContextTokens(
            system=words if item.role is Role.SYSTEM else 0,
            user=words if item.role is Role.USER else 0,
            assistant=words if item.role is Role.ASSISTANT else 0,
            calls=sum(self.call(body, call) for call in item.calls),
            outputs=sum(self.output(output) for output in item.outputs),
            media=sum(self.media(body, one) for one in pictures),
            opaque=sum(self.opaque(opaque) for opaque in item.opaque),
            other=words if item.role in {Role.TOOL, Role.OTHER} else 0,
        )

    def fixed(self, index: HistoryIndex) -> ContextTokens:
        """Returns the tokens of instructions and tool declarations outside the items."""
        return ContextTokens(
            system=sum(self.json(value) for value in index.system), tools=sum(self.json(value) for value in index.tools)
        )


def estimate_escaped(tokens: int) -> int:
    """Returns six fifths of a number of tokens, rounded up: the cost of a text in a string inside JSON."""
    return -(-tokens * 6 // 5)
