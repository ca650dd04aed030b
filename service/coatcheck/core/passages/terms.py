"""Splits a query into terms that can be searched for in bytes.

Words of scripts with blanks are reduced to stems, so that inflected forms are found. Runs of scripts without blanks
become overlapping pairs or triples of characters. Identifiers, paths, numbers and error codes are searched for as a
whole and by their parts. Words that ask rather than name something are left out; a query that has only such words is
taken literally. The lists of these words are short: a missing word does little harm, because words that are everywhere
in a document have little weight in any case.
"""

import re
from typing import Final, Literal

import regex
from msgspec import Struct

from coatcheck.core.passages.units import fold, spellings

# ruff: noqa: RUF001 - words of other scripts


_ENGLISH: Final = """
a about after again all also am an and any are aren as at be because been before being below between both but by can
cannot could couldn did didn do does doesn doing don down during each few for from further get gets give given got had
hadn has hasn have haven having he her here hers herself him himself his how i if in into is isn it its itself
just let
ll many may me might more most much must my myself no nor not now of off on once only or other our ours out over own
please re s said same say says shall she should shouldn so some such t tell than that the their theirs them themselves
then there these they this those through to too under until up upon us ve very was wasn we were weren what whatever
when where whether which while who whom whose why will with within without won would wouldn yes yet you your yours
did find show explain describe according
"""
_OTHERS: Final = """
aber als am an auch auf aus bei bin bis bist da damit das dass dein dem den der des die dies diese dieser doch
du durch
ein eine einem einen einer eines er es fur hat hatte ich ihr ihre im in ist ja kann mein mit nach nicht noch nur oder
ob sein seine sich sie sind so uber um und uns unter vom von vor wann war waren warum was wegen welche welchem welchen
welcher welches wenn wer werden wie wieviele wird wo wurde wurden zu zum zur
al ante antes como con cual cuales cuando cuanto cuantos de del desde donde el ella ellos en entre era es esta este
esto fue fueron ha hay la las lo los mas no o para pero por porque que quien quienes se ser si sin sobre son su sus
tras un una unas unos y
a au aux avec ce ces cette combien comme comment d dans de des dont du elle en est et etait ete etre il ils j l la le
les leur leurs lui mais n ne nous on ont ou par pas plus pour pourquoi qu quand que quel quelle quelles quels qui quoi
s sa sans ses son sont sur un une vous
alla anche che chi come con cosa cui da dal dalla dei del della delle di dove e fu gli ha i il in io la le lo ma nel
nella non o ogni per perche piu quale quali quando quanti quanto sono su sua sul suo tra un una uno
ao aos as ate com da das do dos e ela ele em foi mais mas na nas nao no nos o os para pela pelo qual quais quantos que
quem seu sua um uma
aan bij dat de die dit een en er het hoe hoeveel in is met naar niet of om ook op te uit van voor waar waarom wanneer
wat welk welke werd wie wordt zijn
bir bu da de hangi icin ile kac kim mi mu ne neden nerede nasil olarak ve
а без более бы был была были было быть в вам вас во вот все всех вы где да для до его ее если есть еще же за и из или
им их к как какая какие каким каких какое какои какую когда которые которыи кто ли меня мне много может мы на над не
него нее нет ни них но о об он она они оно от по под почему при с со сколько так также такои там тем то того тоже
только ты у уже что чтобы чье чем эта эти это этого этои этот я
απο αυτη αυτο για δε δεν ειναι εχει η ηταν και κατα με μια μας να ο οι οπου οτι ποια ποιες ποιο ποιοι ποιος ποτε που
πως ποσα ποσες ποσο ποσοι σε σημερα στα στη στην στις στο στον στους τα τη την της τι τις το τον του τους των ως γιατι
ما ماذا متى من أين اين كيف كم لماذا هل هو هي في على عن الى إلى أن ان التي الذي مع هذا هذه كان كانت تم قد لا و او ذلك
בין את אם או איך איפה אל אשר גם היא הוא היה היו הם זה זו כמה כי לא לפי מה מי מתי על עם של כל למה באיזה איזה אילו
और इस इसके उस एक का कि किस किसे किसने की के को कौन कब कहां कहाँ क्या क्यों कितने कितनी कैसे था थी थे तक ने में पर भी
यह वह से है हैं हो कर किया जो नहीं गया गई लिए
ai bang bao boi cac cai cho co cua da dau duoc gi hay khi khong la lam mot nao nguoi nhieu nhu nhung noi o ra sao tai
the trong tu va vao ve vi voi
"""
STOPWORDS: Final = frozenset(fold(word) for word in (_ENGLISH + _OTHERS).split())
"""Words that ask or connect rather than name something, folded."""

_ASKING: Final = """
什么 甚么 什麼 多少 哪个 哪個 哪些 哪里 哪裡 哪一 哪年 为什么 為什麼 怎么 怎麼 怎样 怎樣 如何 几个 幾個 何时
何時 谁 誰 请问 請問
いつ どこ なに なぜ だれ どの どんな どれ どれくらい どのような いくつ でしたか ですか ましたか ますか でした
です ました ます という された
される について において によって 何人 何年 誰
무엇입니까 무엇인가요 무엇 언제 어디 누구 누가 어떤 어느 얼마나 얼마 입니까 인가요 습니까 였습니까 했습니까
하였는가 하는가 인가
อะไร เมื่อไร เมื่อใด ที่ไหน ที่ใด ทำไม อย่างไร ใคร กี่ เท่าไร เท่าใด หรือไม่ บ้าง ไหน
"""
ASKING: Final = re.compile("|".join(sorted(set(_ASKING.split()), key=lambda word: (-len(word), word))))
"""Matches question words in scripts without blanks, where they are cut out of runs; the longest word is matched."""
PARTICLES: Final = frozenset(
    "的了是在和与與或被把有之吗嗎呢哪个個这這那不也就都而及其所は가が을を를に에で의の은と는も이か도へ로"
)
"""Characters that connect words: a pair that contains one of them means little."""


MAX_TERMS: Final = 48
"""Maximum number of terms; further terms of a query are ignored."""
MAX_CHARS: Final = 4_000
"""Maximum characters of a query that are read."""

PAIRS: Final = (
    "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U000323af"
)
TRIPLES: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
"""Range of Thai, Lao, Burmese and Khmer: letters and their marks, without blanks between words."""
_RUN: Final = regex.compile(rf"[{PAIRS}]+|[{TRIPLES}]+|[^\s{PAIRS}{TRIPLES}]+")
KANA: Final = re.compile("[\u3040-\u309f]+")
_TRIPLE: Final = re.compile(f"[{TRIPLES}]")
_PAIR: Final = re.compile(f"[{PAIRS}]")
WORD: Final = regex.compile(r"[\p{L}\p{M}\p{N}]+")
_EDGES: Final = regex.compile(r"^[^\p{L}\p{N}]+|[^\p{L}\p{M}\p{N}]+$")
PARTS: Final = regex.compile(r"\p{Lu}+(?!\p{Ll})|\p{Lu}?[\p{Ll}\p{M}]+|[\p{L}\p{M}]+|\p{N}+")
_INNER: Final = regex.compile(r"[\p{L}\p{N}][^\p{L}\p{M}\p{N}'\u2019]+[\p{L}\p{N}]|\p{Ll}\p{Lu}|\p{L}\p{N}|\p{N}\p{L}")
"""Matches the sign of an identifier inside a chunk: punctuation, a capital, or a digit next to a letter."""
_INFLECTED: Final = re.compile("[a-z\u0370-\u052f]+")
SUFFIX: Final = re.compile("(?:ations?|ingly|edly|ments?|ness|ings?|ies|ied|ion|ions|ers?|ors?|ed|es|ly|al|s|y|e)$")
_ENDING: Final = re.compile("(?:en|em|er|os|as|es|is|us|um|am|ar|ir|[aeinos])$")
"""Matches endings of languages other than English in Latin letters; they are removed only from long words."""
_STEM_LETTERS: Final = 4
"""Minimum letters of a stem: a shorter one would be part of too many other words. Chosen, not measured."""
_MIN_INFLECTED_LETTERS: Final = 8
"""Minimum letters of a word that loses an ending of another language: in a shorter word, it is mostly no ending."""
_FREE_LETTERS: Final = 4
"""Minimum letters of a term that is also found inside a longer word."""

_LIGHT_WEIGHT: Final = 0.35
"""Factor on the weight of pieces of a run that connect words rather than name something."""

Role = Literal["word", "whole", "part", "gram", "sign"]
_WEIGHTS: Final[dict[Role, float]] = {"word": 1.0, "whole": 1.5, "part": 0.6, "gram": 0.7, "sign": 1.0}
"""Weight of a term by its role, relative to a word. Identifiers are searched for as a whole and by their parts. The
weights were chosen on the questions of docs/measurements.md (Passages)."""


class Term(Struct, frozen=True):
    """One term to search for."""

    text: str
    """The folded term, as it is shown to the caller."""
    stem: str
    """The folded part that must be present; a word in which letters follow is an inflected form or a longer word."""
    weight: float
    role: Role

    @property
    def pattern(self) -> str:
        """The RE2 pattern that matches every spelling of the stem."""
        return spellings(self.stem)

    @property
    def bound(self) -> bool:
        """Whether the term counts only at the beginning of a word: it is too short to mean anything inside one."""
        return self.role in {"word", "part"} and len(self.stem) < _FREE_LETTERS


class Terms(Struct, frozen=True):
    """The terms of a query."""

    terms: tuple[Term, ...]
    excess: int
    """Number of terms beyond MAX_TERMS; terms beyond MAX_CHARS are not counted."""
    is_truncated: bool
    """Whether the query was longer than MAX_CHARS."""


def terms_of(query: str) -> Terms:
    """Returns the terms of a query, in order; no terms if the query is blank."""
    text = query[:MAX_CHARS].encode("utf-8", "replace").decode()  # no text contains lone surrogates
    signs = [Term(chunk, chunk, _WEIGHTS["sign"], "sign") for chunk in text.split()]
    candidates = _distinct(_terms(text, stop=True) or _terms(text, stop=False) or signs)
    terms = tuple(candidates[:MAX_TERMS])
    return Terms(terms, max(0, len(candidates) - MAX_TERMS), len(query) > MAX_CHARS)


def _distinct(terms: list[Term]) -> list[Term]:
    best: dict[str, Term] = {}
    for term in terms:
        earlier = best.get(term.stem)
        if earlier is None or earlier.weight < term.weight:
            best[term.stem] = term
    return list(best.values())


def _terms(text: str, *, stop: bool) -> list[Term]:
    out: list[Term] = []
    for match in _RUN.finditer(text):
        run = match.group()
        if _PAIR.match(run):
            out += _grams(run, 2, stop=stop)
        elif _TRIPLE.match(run):
            out += _grams(run, 3, stop=stop)
        else:
            out += _chunk(run, stop=stop)
    return out


def _chunk(run: str, *, stop: bool) -> list[Term]:
    """Returns the terms of a run between blanks: one word, several words, or an identifier with its parts."""
    run = _EDGES.sub("", run)
    plain = fold(run)
    if not plain or (stop and plain in STOPWORDS):
        return []
    if not _INNER.search(run):
        return [_word(word, "word") for word in WORD.findall(plain) if not (stop and word in STOPWORDS)]
    out = [Term(plain, plain, _WEIGHTS["whole"], "whole")]
    parts = [fold(part) for part in PARTS.findall(run)]
    out += [_word(part, "part") for part in parts if len(part) > 1 and not (stop and part in STOPWORDS)]
    return out


def _word(word: str, role: Role) -> Term:
    return Term(word, _stem(word), _WEIGHTS[role], role)


def _stem(word: str) -> str:
    """Returns the part that a word and its inflected forms share."""
    if word.startswith("\u0627\u0644") and len(word) > _STEM_LETTERS:  # the Arabic article
        return word[2:]
    if not _INFLECTED.fullmatch(word) or len(word) <= _STEM_LETTERS:
        return word
    if word.isascii():
        stem = SUFFIX.sub("", word)
        stem = _ENDING.sub("", word) if stem == word and len(word) >= _MIN_INFLECTED_LETTERS else stem
        return stem if len(stem) >= _STEM_LETTERS else word[: max(_STEM_LETTERS, len(stem))]
    return word[: max(_STEM_LETTERS, len(word) - 2)]


def _grams(run: str, size: int, *, stop: bool) -> list[Term]:
    """Returns overlapping pieces of a run; pieces that connect words rather than name something weigh less."""
    out: list[Term] = []
    for piece in ASKING.split(run) if stop else [run]:
        plain = fold(piece)
        for at in range(max(1, len(plain) - size + 1)):
            gram = plain[at : at + size]
            light = len(gram) < size < len(run) or KANA.fullmatch(gram) or not PARTICLES.isdisjoint(gram)
            if gram:
                out.append(Term(gram, gram, _WEIGHTS["gram"] * (_LIGHT_WEIGHT if light and stop else 1.0), "gram"))
    return out
