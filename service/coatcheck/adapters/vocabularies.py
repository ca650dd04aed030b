"""The shipped encodings: their tokens' numbers, verified by digest, and how text is split before it is encoded.

The patterns are tiktoken's own, with plain quantifiers instead of possessive ones: what follows each cannot match what
it took. The encoder recognises both patterns by their text and has special code for them; another spelling would be
slow.
"""

import base64
import gzip
import hashlib
from importlib import resources
from typing import Final

from msgspec import Struct

from coatcheck.core.errors import CoatcheckError, Code


class Vocabulary(Struct, frozen=True):
    """An encoding as tiktoken defines it: the digest of its rank file, and its pre-tokenizer's pattern."""

    sha256: str
    pattern: str


_O200K: Final = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
    r"\s*[\r\n]+",
    r"\s+(?!\S)",
    r"\s+",
)
_CL100K: Final = (
    r"'(?i:[sdmt]|ll|ve|re)",
    r"[^\r\n\p{L}\p{N}]?\p{L}+",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"\s+$",
    r"\s*[\r\n]",
    r"\s+(?!\S)",
    r"\s",
)


VOCABULARIES: Final = {
    "o200k_base": Vocabulary("446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d", "|".join(_O200K)),
    "cl100k_base": Vocabulary("223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7", "|".join(_CL100K)),
}


def rank_file(name: str) -> bytes:
    """Returns the tokens of an encoding in VOCABULARIES, in tiktoken's form: one line each, in base64, with its number.

    Raises:
        CoatcheckError: `integrity` if the shipped file does not match its digest.
    """
    gzip_bytes = resources.files("coatcheck.vocab").joinpath(f"{name}.tiktoken.gz").read_bytes()
    data = gzip.decompress(gzip_bytes)
    if hashlib.sha256(data).hexdigest() != VOCABULARIES[name].sha256:
        raise CoatcheckError(
            Code.INTEGRITY,
            f"The vocabulary of {name} in this installation is not the expected one; install the package again.",
        )
    return data


def ranks_of(name: str) -> dict[bytes, int]:
    """Returns the number of each token of an encoding in VOCABULARIES. Raises what `rank_file` raises."""
    pairs = (line.split() for line in rank_file(name).splitlines())
    return {base64.b64decode(token): int(rank) for token, rank in pairs}
