"""Masks the secrets in whatever a model may see.

`fill_secrets` keeps all positions, for texts that will be cut and cited; `text` is for names and lines that are shown
directly. Policies are not consulted here: whoever holds a Mask masks.
"""

import re
from collections import Counter
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from coatcheck.core.artifact import PayloadSample
from coatcheck.core.redact.filler import SecretRange, fill, marker, merge_ranges, reveal, rules_in
from coatcheck.core.redact.find import SecretFinder
from coatcheck.core.survey.survey import Region
from coatcheck.core.tokens import Tokenizer

_EDGE: Final = 1024
"""Bytes at a cut end of a sample that may hold part of a secret."""
_MOST_NAMED: Final = 4
_CUT_SHORT: Final = re.compile(r"[\w+/=.:~-]{4,}…?\Z")


class MaskedSecrets(Struct, frozen=True):
    """Counts the secrets masked in a text, by rule."""

    count: int
    rules: tuple[str, ...]
    """Rule names with their counts, most frequent first."""

    @classmethod
    def of(cls, counts: "Counter[str]") -> "MaskedSecrets":
        """Returns how often each rule found a secret, by the rules' names."""
        return cls(sum(counts.values()), tuple(sorted(counts, key=lambda name: (-counts[name], name))))

    def sentence(self) -> str:
        """Returns the counts as words for a model: `3 secrets (github-pat, jwt)`."""
        more = f" and {len(self.rules) - _MOST_NAMED} more kinds" if len(self.rules) > _MOST_NAMED else ""
        rule_list = f" ({', '.join(self.rules[:_MOST_NAMED])}{more})" if self.rules else ""
        return f"{self.count} {'secret' if self.count == 1 else 'secrets'}{rule_list}"


NOTHING: Final = MaskedSecrets(0, ())


class Mask:
    """Masks what one rule set finds. Safe to use from several threads at once."""

    def __init__(self, finder: SecretFinder, starts: tuple[str, ...] = ()) -> None:
        """Takes a finder and the prefixes of known secrets, by which one cut off at an end is recognised."""
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
        """Returns a line or a name as it may be shown, even if it was cut in the middle of a secret."""
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
        """Returns a text without the first part of a secret that its end cuts off."""
        last = _CUT_SHORT.search(text) if self._starts is not None else None
        if last is None or self._starts is None:
            return text
        start = self._starts.search(text, last.start())
        return text if start is None else text[: start.start()] + marker("")

    def lines(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        """Masks several lines or names; if they contain no secrets, that takes a single search."""
        if not texts:
            return texts
        whole = "\n".join(texts)
        if not self.find(whole.encode("utf-8", "surrogatepass")) and all(
            self._without_start(text) == text for text in texts
        ):
            return texts
        return tuple(map(self.text, texts))

    def reveal(self, text: str, *, brief: bool = False) -> str:
        """Returns a text with markers in place of fillers."""
        return reveal(text, self.names, brief=brief)

    def sample(
        self, sample: PayloadSample, fragments: tuple[Region, ...] = ()
    ) -> tuple[PayloadSample, MaskedSecrets, tuple[Region, ...]]:
        """Returns a sample, and fragments from between its ends, with secrets masked, and counts what was masked.

        Anything at an inner end that may be part of a secret is masked as well. The result depends on the sample alone,
        so that a payload gives the same card however it was read.
        """
        head = self._part(sample.head, begins=True, ends=sample.whole)
        tail = self._part(sample.tail, begins=False, ends=True) if sample.tail else b""
        parts = tuple(
            replace(each, data=self._part(each.data, begins=each.begins, ends=each.ends)) for each in fragments
        )
        if (head, tail, parts) == (sample.head, sample.tail, fragments):
            return sample, NOTHING, fragments
        rules = (rule for data in (head, tail, *(each.data for each in parts)) for rule in rules_in(data))
        counts = Counter(self.names[rule] for rule in rules if rule < len(self.names))
        return replace(sample, head=head, tail=tail, masked=self.names), MaskedSecrets.of(counts), parts

    def _part(self, data: bytes, *, begins: bool, ends: bool) -> bytes:
        secrets = self.find(data, begins=begins, ends=ends)
        nobodys = len(self.names)
        blanks = (b"\n", b" ", b"\t")
        if not ends:
            at = max(data.rfind(blank, len(data) - _EDGE) + 1 for blank in blanks)
            secrets.append(SecretRange(max(at, len(data) - _EDGE), len(data), nobodys))
        if not begins:
            positions = [place for place in (data.find(blank, 0, _EDGE) for blank in blanks) if place >= 0]
            secrets.append(SecretRange(0, min(positions, default=_EDGE), nobodys))
        return fill(data, merge_ranges([each for each in secrets if each.start < each.end]))


def reveal_text(text: str, mask: Mask, tokenizer: Tokenizer, tokens: int, chars: int) -> tuple[str, int]:
    """Returns a text with markers in place of fillers, within a limit of tokens and characters, and its tokens.

    Where full markers do not fit, each becomes a single character, which is never longer than its filler.
    """
    full_text = mask.reveal(text)
    count = tokenizer.count(full_text)
    if count <= tokens and len(full_text) <= chars:
        return full_text, count
    brief = mask.reveal(text, brief=True)
    return brief, tokenizer.count(brief)
