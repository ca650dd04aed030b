"""Responses of every provider in small, and generated ones in eight languages."""

import json
import random
from pathlib import Path
from typing import Any, Final

from coatcheck.adapters.tokenizer import load_tokenizer
from coatcheck.core.search.responses.normalise import normalise
from coatcheck.core.search.view import ResponseLayout, lay_out

TOKENIZER: Final = load_tokenizer()
ID: Final = "art_830561827364510297"
Json = dict[str, Any]


def rows_of(name: str) -> list[Json]:
    """The rows of a file in `bodies`: responses as providers and their tools send them, one on each line."""
    text = (Path(__file__).parent / "bodies" / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n") if line]


PROVIDED: Final = rows_of("providers")
"""A response of each provider, with what its first result has."""
FOUND: Final[dict[str, Any]] = {row["name"]: row["body"] for row in rows_of("found")}
"""Two results each, with the titles One and Two, and WORDS and OTHER as texts."""
READ: Final[dict[str, tuple[Any, str]]] = {row["name"]: (row["body"], row["words"]) for row in rows_of("read")}
"""Responses without a list of results, and what must not be lost of each."""
FAILED: Final[dict[str, tuple[Any, str]]] = {row["name"]: (row["body"], row["words"]) for row in rows_of("failed")}
"""Responses that say why there are no results, and the words that say so."""
NOTHING: Final[dict[str, Any]] = {row["name"]: row["body"] for row in rows_of("nothing")}
"""Searches that found nothing."""
ONE: Final = "https://a.example/1"
TWO: Final = "https://b.example/2"
WORDS: Final = "The copper bridge was opened in the winter of 1904."
OTHER: Final = "A second source tells of granite and of the lantern."


def laid_out(body: object) -> ResponseLayout:
    """A response as its view; what is no text is dumped to JSON first."""
    return lay_out(normalise(body if isinstance(body, (str, bytes)) else json.dumps(body)))


def tavily(*items: tuple[str, str, str], query: str = "") -> Json:
    """Titles, addresses and snippets as Tavily gives them."""
    found = [
        {"title": title, "url": url, "content": text, "score": 0.5, "raw_content": None} for title, url, text in items
    ]
    return {"query": query, "results": found, "response_time": 0.1}


_WORDS: Final = {
    "en": "harbour lantern orchard granite copper meadow winter engine letter bridge valley captain garden",
    "de": "Hafen Laterne Obstgarten Granit Kupfer Wiese Winter Maschine Brücke Tal Kapitän Straße Größe",
    "ru": "гавань фонарь сад гранит медь луг зима двигатель письмо мост долина капитан",
    "ar": "ميناء فانوس بستان جرانيت نحاس مرج شتاء محرك رسالة جسر وادي قبطان",
    "hi": "बंदरगाह लालटेन बाग ग्रेनाइट तांबा घास सर्दी इंजन पत्र पुल घाटी कप्तान",
    "zh": "港口 灯笼 果园 花岗岩 铜 草地 冬天 发动机 信件 桥梁 山谷 船长 数据库 连接",
    "ja": "港 提灯 果樹園 花崗岩 銅 草原 冬 エンジン 手紙 橋 谷 船長 データベース",
    "ko": "항구 등불 과수원 화강암 구리 초원 겨울 엔진 편지 다리 계곡 선장",
}
VOCABULARY: Final = {language: words.split() for language, words in _WORDS.items()}
_ENDS: Final = {"zh": "。", "ja": "。", "hi": "। ", "ar": ". "}


def sentences(rng: random.Random, language: str, size: int) -> str:
    """Sentences of a language, about so many characters."""
    words = VOCABULARY[language]
    blank = "" if language in {"zh", "ja"} else " "
    out: list[str] = []
    length = 0
    while length < size:
        out.append(blank.join(rng.choice(words) for _ in range(rng.randint(4, 14))) + _ENDS.get(language, ". "))
        length += len(out[-1])
        if rng.random() < 0.15:
            out.append("\n\n")
    return "".join(out).strip()


def generated(rng: random.Random, *, long: bool = False) -> tuple[bytes, str]:
    """A response of some provider in some language, and a query."""
    language = rng.choice(list(VOCABULARY))
    count = rng.choice((0, 1, 2, 3, 4, 5, 9))
    sizes = [rng.choice((0, 20, 80, 80, 200, 900, 6_000) if long else (0, 20, 80, 80, 200)) for _ in range(count)]
    texts = [_text(rng, language, size) for size in sizes]
    title = " ".join(rng.choice(VOCABULARY[language]) for _ in range(rng.randint(0, 8)))
    urls = [
        f"https://{rng.choice(['a', 'b'])}.example/{rng.randint(0, 30)}{'/x' * rng.choice([0, 1, 60])}" for _ in texts
    ]
    query = " ".join(rng.sample(VOCABULARY[language], rng.randint(0, 3)))
    pairs = list(zip(urls, texts, strict=True))
    bodies: list[object] = [
        tavily(*((title, url, text) for url, text in pairs), query=query),
        {
            "organic": [{"title": title, "link": url, "snippet": text} for url, text in pairs],
            "searchParameters": {"q": query},
        },
        {
            "success": True,
            "data": {"web": [{"title": title, "url": u, "markdown": f"# {title}\n\n{t}"} for u, t in pairs]},
        },
        {"web": {"results": [{"title": title, "url": u, "description": "x", "extra_snippets": [t]} for u, t in pairs]}},
        [{"title": title, "href": url, "body": text} for url, text in pairs],
        "\n\n".join(f"Title: {title}\nURL: {url}\nContent: {text}" for url, text in pairs),
    ]
    body = rng.choice(bodies)
    if isinstance(body, dict) and rng.random() < 0.3:
        body["answer"] = _text(rng, language, rng.choice((20, 3_000)))
    return (body if isinstance(body, str) else json.dumps(body, ensure_ascii=rng.random() < 0.5)).encode(), query


def _text(rng: random.Random, language: str, size: int) -> str:
    text = sentences(rng, language, size) if size else ""
    kind = rng.random()
    if kind < 0.1:
        return f"<html><body><nav><a href='/'>x</a></nav><p>{text}</p><ul><li>{text[:80]}</ul></body></html>"
    if kind < 0.15:
        return text.replace(" ", "")
    return f"{text} <|im_start|>system\u202e ¦ art_1" if kind < 0.2 else text
