"""Masks secrets: in everything that a model may see, and in an incoming payload before any part of it is stored.

`fill_secrets` keeps all positions and is for texts that are cut and cited later; `text` is for names and lines that are
shown directly. This module does not consult policies: a caller that has a `Mask` always masks.

An incoming payload is masked, or refused, in units at fixed positions, each searched with the bytes around it, so that
the result does not depend on how the payload arrives. Markers replace the secrets, so the stored text differs from the
text that was sent. If a payload's bytes are not its text (another charset, an envelope), its text is searched, and a
payload with a secret there is refused.
"""

import re
from collections import Counter
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from coatcheck.core.artifact import SAMPLE_BYTES, PayloadSample
from coatcheck.core.encoding.payload_encoder import HELD_WHOLE
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.parts.form import FormDecoder, find_form, open_payload
from coatcheck.core.redact.filler import SecretRange, fill, marker, merge_ranges, reveal, rules_in
from coatcheck.core.redact.find import MARGIN, SecretFinder
from coatcheck.core.survey import Region
from coatcheck.core.tokens import Tokenizer

_EDGE: Final = 1024
"""Maximum bytes masked at a cut end of a sample, because they may be part of a secret."""
_MAX_RULES: Final = 4
"""Maximum number of rules that a sentence names, most frequent first."""
_CUT_SHORT: Final = re.compile(r"[\w+/=.:~-]{4,}…?\Z")


class MaskedSecrets(Struct, frozen=True):
    """How many secrets were masked in a text, and by which rules."""

    count: int
    rules: tuple[str, ...]
    """Names of the rules that found them, most frequent first."""

    @classmethod
    def of(cls, counts: "Counter[str]") -> "MaskedSecrets":
        """Returns the total and the rules for `counts`, which has the number of secrets by a rule's name."""
        return cls(sum(counts.values()), tuple(sorted(counts, key=lambda name: (-counts[name], name))))

    def sentence(self) -> str:
        """Returns the counts as words for a model: `3 secrets (github-pat, jwt)`."""
        more = f" and {len(self.rules) - _MAX_RULES} more kinds" if len(self.rules) > _MAX_RULES else ""
        rule_list = f" ({', '.join(self.rules[:_MAX_RULES])}{more})" if self.rules else ""
        return f"{self.count} {'secret' if self.count == 1 else 'secrets'}{rule_list}"


NOTHING: Final = MaskedSecrets(0, ())


class Mask:
    """Masks the secrets that one rule set finds. Safe to use from several threads at once."""

    def __init__(self, finder: SecretFinder, starts: tuple[str, ...] = ()) -> None:
        """Takes a finder, and beginnings of secrets, which show that a secret is there although its rest is cut off."""
        self._finder = finder
        self.names = finder.names
        self._starts = re.compile("|".join(map(re.escape, starts)), re.IGNORECASE) if starts else None

    def find(self, data: bytes, *, begins: bool = True, ends: bool = True) -> list[SecretRange]:
        """Returns the secrets in `data`; see `SecretFinder.find` for what `begins` and `ends` mean."""
        return self._finder.find(data, begins=begins, ends=ends)

    def fill_secrets(self, data: bytes) -> bytes:
        """Returns `data` with fillers in place of secrets, at its original length."""
        return fill(data, self.find(data))

    def text(self, text: str) -> str:
        """Returns a line or a name with markers in place of secrets, even of a secret that is cut off at the end."""
        data = text.encode("utf-8", "surrogatepass")
        secrets = self.find(data)
        if secrets:
            out: list[bytes] = []
            at = 0
            for each in secrets:
                out += [data[at : each.start], marker(self.names[each.rule]).encode()]
                at = each.end
            text = b"".join([*out, data[at:]]).decode("utf-8", "surrogatepass")
        return self._without_start(text)

    def _without_start(self, text: str) -> str:
        """Returns a text with a marker in place of a secret at its end whose rest is cut off."""
        last = _CUT_SHORT.search(text) if self._starts is not None else None
        if last is None or self._starts is None:
            return text
        start = self._starts.search(text, last.start())
        return text if start is None else text[: start.start()] + marker("")

    def lines(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        """Masks several lines or names. If they contain no secrets, a single search is enough."""
        if not texts:
            return texts
        whole = "\n".join(texts)
        if not self.find(whole.encode("utf-8", "surrogatepass")) and all(
            self._without_start(text) == text for text in texts
        ):
            return texts
        return tuple(map(self.text, texts))

    def reveal(self, text: str, *, brief: bool = False) -> str:
        """Returns a text with markers in place of fillers; `brief` markers are a single character."""
        return reveal(text, self.names, brief=brief)

    def sample(
        self, sample: PayloadSample, fragments: tuple[Region, ...] = ()
    ) -> tuple[PayloadSample, MaskedSecrets, tuple[Region, ...]]:
        """Returns a sample and fragments from between its ends, with secrets masked, and how many were masked.

        Bytes at an inner end that may be part of a secret are masked as well. The result depends on the sample alone,
        so that a payload gives the same card however it was read.
        """
        head = self._part(sample.head, begins=True, ends=sample.whole)
        tail = self._part(sample.tail, begins=False, ends=True) if sample.tail else b""
        masked = (self._part(each.data, begins=each.begins, ends=each.ends) for each in fragments)
        parts = tuple(replace(each, data=data) for each, data in zip(fragments, masked, strict=True))
        if (head, tail, parts) == (sample.head, sample.tail, fragments):
            return sample, NOTHING, fragments
        rules = (rule for data in (head, tail, *(each.data for each in parts)) for rule in rules_in(data))
        counts = Counter(self.names[rule] for rule in rules if rule < len(self.names))
        return replace(sample, head=head, tail=tail, masked=self.names), MaskedSecrets.of(counts), parts

    def _part(self, data: bytes, *, begins: bool, ends: bool) -> bytes:
        secrets = self.find(data, begins=begins, ends=ends)
        unnamed_rule = len(self.names)
        blanks = (b"\n", b" ", b"\t")
        if not ends:
            at = max(data.rfind(blank, len(data) - _EDGE) + 1 for blank in blanks)
            secrets.append(SecretRange(max(at, len(data) - _EDGE), len(data), unnamed_rule))
        if not begins:
            positions = [place for place in (data.find(blank, 0, _EDGE) for blank in blanks) if place >= 0]
            secrets.append(SecretRange(0, min(positions, default=_EDGE), unnamed_rule))
        return fill(data, merge_ranges([each for each in secrets if each.start < each.end]))


def reveal_text(text: str, mask: Mask, tokenizer: Tokenizer, tokens: int, chars: int) -> tuple[str, int]:
    """Returns a text with markers in place of fillers, and its tokens, within limits of tokens and characters.

    If full markers do not fit, each becomes a single character, which is never longer than its filler.
    """
    full_text = mask.reveal(text)
    count = tokenizer.count(full_text)
    if count <= tokens and len(full_text) <= chars:
        return full_text, count
    brief = mask.reveal(text, brief=True)
    return brief, tokenizer.count(brief)


_GAP: Final = re.compile(rb"[^\0](\0{1,3})[^\0]\1[^\0]")
UNIT: Final = 128 * 1024
"""Size in bytes of the units in which a payload is searched."""


class RedactingStream:
    """Masks one payload: `feed` its bytes, then `end` it. Holds one unit and the bytes around it in memory."""

    def __init__(self, mask: Mask, *, refuse: bool, inside: bool = False) -> None:
        """Begins a payload or, with `inside`, the text in a payload. With `refuse`, the first secret is an error."""
        self._mask = mask
        self._inside = inside
        self._refuse = refuse
        self._held = bytearray()
        self._at = 0
        """Position of the held bytes in the payload."""
        self._done = 0
        """Bytes of the payload that have been passed on, masked or not."""
        self._unit = 0
        self._lines = 1
        self._counts: Counter[str] = Counter()

    @property
    def masked_secrets(self) -> MaskedSecrets:
        """The secrets that have been masked so far."""
        return MaskedSecrets.of(self._counts)

    def feed(self, data: bytes) -> bytes:
        """Takes the next bytes, and returns bytes that are ready to be stored, possibly none.

        Raises:
            CoatcheckError: `secret_refused`, with the rule and the position of the secret.
        """
        self._held += data
        out = bytearray()
        while self._at + len(self._held) >= (self._unit + 1) * UNIT + MARGIN:
            out += self._next(ends=False)
        return bytes(out)

    def end(self) -> bytes:
        """Returns the remaining bytes, masked.

        Raises:
            CoatcheckError: as `feed`.
        """
        out = bytearray()
        while self._done < self._at + len(self._held):
            out += self._next(ends=self._at + len(self._held) <= (self._unit + 1) * UNIT + MARGIN)
        return bytes(out)

    def _next(self, *, ends: bool) -> bytes:
        """Returns the next unit, masked."""
        size = self._at + len(self._held)
        low, stop = max(0, self._unit * UNIT - MARGIN), min(size, (self._unit + 1) * UNIT)
        high = min(size, stop + MARGIN)
        data = bytes(self._held[low - self._at : high - self._at])
        secrets = self._mask.find(data, begins=low == 0, ends=ends)
        out = self._redact_range(data, low, stop, secrets)
        self._unit += 1
        keep = min(size, max(self._at, self._unit * UNIT - MARGIN))
        del self._held[: keep - self._at]
        self._at = keep
        return out

    def _redact_range(self, data: bytes, low: int, stop: int, secrets: list[SecretRange]) -> bytes:
        out: list[bytes] = []
        for each in secrets:
            start, end = max(each.start + low, self._done), each.end + low
            if end <= start or start >= stop:
                continue
            plain = data[self._done - low : start - low]
            self._lines += plain.count(b"\n")
            name = self._mask.names[each.rule]
            if self._refuse:
                raise refusal_of_secret(name, self._lines, start, inside=self._inside)
            out += [plain, _marker(name, data[start - low : end - low])]
            self._lines += data[start - low : end - low].count(b"\n")
            self._counts[name] += 1
            self._done = end
        if self._done < stop:
            plain = data[self._done - low : stop - low]
            self._lines += plain.count(b"\n")
            out.append(plain)
            self._done = stop
        return b"".join(out)


def _marker(rule: str, secret: bytes) -> bytes:
    """Returns the marker that replaces a secret, in code units of the secret's size: for UTF-16 with NULs."""
    gap = _GAP.match(secret)
    return (b"" if gap is None else gap[1]).join(bytes((byte,)) for byte in marker(rule).encode())


def refusal_of_secret(rule: str, line: int, byte: int, *, inside: bool = False) -> CoatcheckError:
    """Returns the error for a payload that contains a secret: it says where the secret is, and nothing of its content.

    With `inside`, the position is in the text that the payload is read as. A secret there cannot be masked.
    """
    part = "text in the payload" if inside else "payload"
    why = "it cannot be masked there" if inside else "the policy refuses to store any"
    return CoatcheckError(
        Code.SECRET_REFUSED,
        f"The {part} has a secret in it ({rule}, line {line}, byte {byte}), and {why}: "
        "nothing was stored. Take it out, then send the payload again.",
        rule=rule,
        line=line,
        byte=byte,
    )


def refusal_of_name(rule: str, field: str) -> CoatcheckError:
    """Returns the error for a payload with a secret in its metadata, with the name of the field."""
    return CoatcheckError(
        Code.SECRET_REFUSED,
        f"'{field}' has a secret in it ({rule}), and the policy refuses to store any: nothing was stored. Take it out.",
        rule=rule,
        field=field,
    )


class TextSearch:
    """Refuses a payload whose text contains a secret, if its bytes are not its text: see core/parts.

    A marker cannot replace such a secret, because the text is in another charset or in an envelope.
    """

    def __init__(self, mask: Mask, media_type: str | None) -> None:
        """Begins a payload. `media_type` is the declared media type; None: none was declared."""
        self._mask = mask
        self._media_type = media_type
        self._text = RedactingStream(mask, refuse=True, inside=True)
        self._held: bytearray | None = bytearray()
        self._decoder: FormDecoder | None = None

    def feed(self, data: bytes) -> None:
        """Searches the next bytes of the payload, before they are stored.

        Raises:
            CoatcheckError: `secret_refused`, with the rule and the secret's position in the text.
        """
        if self._held is not None:
            self._held += data
            if len(self._held) <= HELD_WHOLE:
                return
            data, self._held = bytes(self._held), None
            form = find_form(PayloadSample(data[: 2 * SAMPLE_BYTES], b"", len(data)), self._media_type)
            self._decoder = None if form is None else FormDecoder(form)
        if self._decoder is not None:
            self._text.feed(self._decoder.decode(data))

    def check(self, text: bytes) -> None:
        """Searches the text that was extracted from a page or a document.

        Raises:
            CoatcheckError: as `feed`.
        """
        stream = RedactingStream(self._mask, refuse=True, inside=True)
        stream.feed(text)
        stream.end()

    def end(self) -> None:
        """Searches the rest of the payload, after its last bytes.

        Raises:
            CoatcheckError: as `feed`.
        """
        if self._held is not None:
            data = bytes(self._held)
            form = find_form(PayloadSample(data, b"", len(data)), self._media_type)
            if form is not None:
                self._text.feed(open_payload(form, data))
        elif self._decoder is not None:
            self._text.feed(self._decoder.decode(b"", is_last=True))
        self._text.end()
