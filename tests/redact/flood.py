"""Documents with planted secrets through every way of reading; nothing of a secret may come out.

`python tests/redact/flood.py 10000` runs many and prints figures; the suite runs a few of the same.
"""

import argparse
import asyncio
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from random import Random
from typing import Any, cast

import msgspec

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "service")]


from coatcheck.api.services import Services
from coatcheck.bootstrap.service import open_service
from coatcheck.core import ids
from coatcheck.core.artifact import Caller, DeclaredMetadata
from coatcheck.core.errors import CoatcheckError
from coatcheck.ports.catalog import ArtifactFilter
from coatcheck.settings import load
from coatcheck.storing.ingest_request import IngestRequest
from coatcheck.tools.calls import Call
from coatcheck.tools.dispatcher import ToolDispatcher
from coatcheck.usecases.reading.grep import PatternSearchRequest
from coatcheck.usecases.reading.read import ReadRequest
from coatcheck.usecases.web_search.budget_search import SearchResultsRequest as ResultsAsk
from coatcheck.usecases.web_search.verify_citations import Quotation
from redact import documents, planted_secrets

_TITLE = 300
"""Characters of a title; a secret that the caller cut is none that a rule knows."""
_PREFIX = "bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t"
_GRAM = 12
"""Characters of a secret that must not come out; of a shorter one, all."""


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


class Flood:
    """Takes documents in and reads them in every way."""

    def __init__(self, services: Services, random: Random, share: float = 1.0) -> None:
        """Make it; only a share of all ways is tried with each document."""
        self.share = share
        self.services = services
        self.random = random
        self.caller = Caller()
        self.answers = 0
        self.leaks: Counter[str] = Counter()
        self.examples: dict[str, str] = {}

    async def document(self, kind: str, rules: list[str]) -> None:
        made = [planted_secrets.plant(rule, self.random) for rule in rules]
        document = documents.make(kind, [each.text for each in made], self.random)
        outs: list[tuple[str, str]] = []
        number = await self._in(document, made, outs)
        await self._read(number, document, made, outs)
        for way, text in outs:
            self.answers += 1
            for each in made:
                gram = leaked(each.secret, text)
                if gram:
                    key = f"{kind}/{each.rule}/{way}"
                    self.leaks[key] += 1
                    if key not in self.examples:
                        self.examples[key] = f"{gram!r} of {each.secret[:60]!r} in {each.text[:120]!r}"
                        sys.stderr.write(f"{key} {self.examples[key]}\n")

    async def _in(
        self, document: documents.Document, made: list[planted_secrets.Planted], outs: list[tuple[str, str]]
    ) -> int:
        random = self.random
        said = DeclaredMetadata(
            tool_name="make",
            media_type=document.media_type,
            title=made[0].text if len(made[0].text) <= _TITLE and random.random() < 0.2 else document.title,
            url=_address(made[0]) if random.random() < 0.2 else None,
            session="s",
        )
        if document.search:
            got = await self.services.search_results(self.caller, document.data, ResultsAsk(declared=said))
            outs.append(("search_results", _json(got.answer)))
            assert got.answer.id is not None
            return ids.parse(got.answer.id)
        offer = IngestRequest(
            declared=said, inline_tokens=random.choice((0, 1000)), card_tokens=random.choice((None, 128, 4000))
        )
        receipt = await self.services.ingest(self.caller, _once(document.data), offer)
        outs.append(("ingest", _json(receipt)))
        return ids.parse(receipt.id)

    async def _read(
        self,
        number: int,
        document: documents.Document,
        made: list[planted_secrets.Planted],
        outs: list[tuple[str, str]],
    ) -> None:
        s, caller, random = self.services, self.caller, self.random
        described = await s.describe(caller, number, budget=random.choice((64, 256, 2000)), query=_question(made[0]))
        outs.append(("describe", _json(described.card) + described.text))
        outs.append(("artifact", _json(described.artifact.declared) + _json(described.artifact.facts)))
        for each in made:
            await self._around(number, document, each, outs)
        for view in ("raw", "text"):
            await self._try(
                "windows", s.windows(caller, number, query=_question(made[0]), view=view, max_tokens=800), outs
            )
        await self._try("outline", s.outline(caller, number), outs)
        for path in ("$..note", "$.map", "$.body", "$"):
            if document.media_type == "application/json":
                await self._try("json", s.read_json(caller, number, path=path), outs)
        artifact = ids.render(number)
        for arguments in (
            {"offset": 1},
            {"section": "outline"},
            {"query": _question(made[0])},
            {"pattern": made[0].secret[:5]},
        ):
            got = await cast("ToolDispatcher", s.tools).execute(
                caller, Call(name="read_artifact", arguments={"artifact_id": artifact, **arguments})
            )
            outs.append(("tool", got.text.replace(str(arguments.get("pattern", "\0")), "")))
        quotations = [Quotation(quote=f"is {each.secret[:-4]} not", citation=artifact) for each in made]
        outs += [
            ("verify", _json(each))
            for each in await s.verify_citations(caller, quotations)
            if not isinstance(each, CoatcheckError)
        ]
        listing = await s.browse(caller, ArtifactFilter(session="s"), None, 3)
        outs.append(("list", _json([[a.declared, a.facts] for a in listing.items])))

    async def _around(
        self, number: int, document: documents.Document, each: planted_secrets.Planted, outs: list[tuple[str, str]]
    ) -> None:
        """Reads that begin or end in the secret, and searches that would find it."""
        s, caller, random = self.services, self.caller, self.random
        at = max(0, document.data.find(each.secret.split("\n")[0].encode()[:40]))
        inside = at + random.randint(0, len(each.secret))
        for ask in (
            ReadRequest(unit="byte", offset=max(0, inside - 40), limit=60),
            ReadRequest(unit="byte", offset=inside, limit=200),
            ReadRequest(
                unit="line",
                offset=document.data.count(b"\n", 0, at) + 1,
                limit=3,
                max_tokens=random.choice((20, 60, 400)),
            ),
            ReadRequest(unit="token", offset=random.randint(0, 60), limit=200),
        ):
            await self._try(f"read {ask.unit}", s.read_span(caller, number, ask), outs)
        size = len(each.secret)
        for pattern in (each.secret[: size // 2], each.secret[size // 2 : size // 2 + 6], f"{each.secret[:4]}.*"):
            for literal in (True, False):
                ask = PatternSearchRequest(pattern=pattern, literal=literal, context=2, limit=5, max_tokens=400)
                await self._try("search", s.search(caller, number, ask), outs, pattern)

    async def _try(
        self, way: str, answer: Coroutine[Any, Any, object], outs: list[tuple[str, str]], said: str = ""
    ) -> None:
        """What an answer says beside what was asked, which a sentence may repeat."""
        if self.random.random() > self.share:
            answer.close()
            return
        try:
            text = _json(await answer)
            outs.append((way, text.replace(said, "") if said else text))
        except CoatcheckError as error:
            outs.append((way, error.detail.replace(said, "") if said else error.detail))


def _question(each: planted_secrets.Planted) -> str:
    """Words around a secret, without it: answers say what was asked for."""
    return f"what was left {each.text.replace(each.secret, ' ')[:60]}"


def _address(made: planted_secrets.Planted) -> str | None:
    """A page's address with the secret in its query, where what was planted can stand in one as it is."""
    address = f"https://example.com/search?q={made.text}"
    return address if re.fullmatch(r"[\x21\x23-\x5b\x5d-\x7e]{1,2000}", address) else None


def leaked(secret: str, text: str) -> str | None:
    """A part of the secret that stands in the text."""
    plain = secret.strip("\"' ")
    if len(plain) <= _GRAM:
        return plain if len(plain) >= 8 and plain in text else None
    for at in range(0, len(plain) - _GRAM + 1, 3):
        gram = plain[at : at + _GRAM]
        if gram in text and not _common(gram):
            return gram
    return None


def _common(gram: str) -> bool:
    """What every secret of a kind has, and texts have besides."""
    return (
        gram.startswith(("-----", "https://", "http://", "api_org_", "bundle_"))
        or len(set(gram)) < 5
        or gram in _PREFIX
    )


def _json(value: object) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode().replace("\\n", "\n").replace('\\"', '"')


async def run(count: int, seed: int, mode: str = "shown", share: float = 1.0, *, show: bool = False) -> Flood:
    """So many documents; every rule and every kind comes up."""
    random = Random(seed)
    with tempfile.TemporaryDirectory() as data:
        async with open_service(load({}, data=data, redaction=mode, port=0)) as running:
            flood = Flood(running.services, random, share)
            names, places = planted_secrets.names(), documents.kinds()
            for n in range(count):
                rules = [names[n % len(names)], *random.sample(names, random.randint(0, 2))]
                if show and n % 250 == 0:
                    sys.stderr.write(f"{n} {flood.answers} {sum(flood.leaks.values())}\n")
                await flood.document(places[(n + n // len(places)) % len(places)], rules)
            return flood


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("documents", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mode", default="shown")
    parser.add_argument("--share", type=float, default=1.0)
    asked = parser.parse_args()
    began, cpu = time.monotonic(), time.process_time()
    flood = asyncio.run(run(asked.documents, asked.seed, asked.mode, asked.share, show=True))
    lines = [
        f"{asked.documents} documents, {flood.answers} answers, {sum(flood.leaks.values())} with a part of a secret",
        f"{time.monotonic() - began:.0f} s, {time.process_time() - cpu:.0f} s of computing",
        *(f"{n} {key} {flood.examples[key]}" for key, n in flood.leaks.most_common(60)),
    ]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
