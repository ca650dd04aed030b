"""What clients know: what was acknowledged to them, until when it must be there and from when it must be gone.

Nothing here knows how the service works: a promise is an answer that a client got, with the moments around it.
"""

import hashlib
import random
import threading
import time
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal

from faults.caller import Answer, Broken, Caller
from faults.readable import readable
from faults.report import Report

REFUSALS = frozenset({"storage_unavailable", "storage_full"})
Fate = Literal["kept", "asked", "deleted"]
"""Whether its deletion was not asked for, asked for without an answer, or acknowledged."""


@dataclass
class Kept:
    """One acknowledged artifact."""

    sha256: str
    sure_until: float = inf
    """Before this moment it must be there."""
    gone_after: float = inf
    """After this moment it must not be there."""
    idle: int | None = None
    """The idle TTL in seconds, which each read may move."""
    fate: Fate = "kept"
    word: str | None = None
    """What a query finds it by. It then has a text view, too."""
    view: str | None = None
    """The digest of the text view that was read first: the same for as long as it lives."""

    @property
    def ends(self) -> bool:
        """Whether it expires by itself."""
        return self.gone_after != inf


@dataclass(frozen=True)
class Ask:
    """One request to store something, as it was or will be made again."""

    payload: bytes
    call: str
    key: str | None = None
    ttl: int | None = None
    idle_ttl: int | None = None
    word: str | None = None
    """As of Kept."""

    def said(self) -> dict[str, Any]:
        """Its query."""
        times = {"ttl": self.ttl, "idle_ttl": self.idle_ttl}
        return {"tool_call_id": self.call, "inline_tokens": 0} | {k: v for k, v in times.items() if v is not None}


@dataclass
class Ledger:
    """The acknowledged history."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    kept: dict[str, Kept] = field(default_factory=dict[str, Kept])
    unanswered: list[Ask] = field(default_factory=list[Ask])
    """Keyed requests without an answer: to be made again."""
    outages: bool = False
    """Whether storage may be away: then an answer may say so, and a card may say that nothing is stored."""
    waiting: dict[str, Kept] = field(default_factory=dict[str, Kept])
    """What was answered as not stored."""

    def names(self) -> list[str]:
        """Every artifact ever acknowledged."""
        with self.lock:
            return list(self.kept)

    def store(self, caller: Caller, ask: Ask, report: Report) -> str | None:
        """Make a request. Raises one of `Broken` when the service went away; then a keyed one is remembered."""
        before = time.time()  # noqa: TID251 - what a client sees
        try:
            answer = caller.post(ask.payload, key=ask.key, **ask.said())
        except Broken:
            if ask.key is not None:
                with self.lock:
                    self.unanswered.append(ask)
            raise
        after = time.time()  # noqa: TID251
        if answer.status not in {200, 201}:
            self._refused("post", answer, report)
            if answer.status == 202:
                with self.lock:
                    self.waiting[answer.json["id"]] = Kept(hashlib.sha256(ask.payload).hexdigest())
            return None
        name: str = answer.json["id"]
        report.expect("201 is said of what is stored", answer.json["stored"] is True, name)
        lives = [t for t in (ask.ttl, ask.idle_ttl) if t is not None]
        last = inf if not lives else min(lives)
        created = answer.status == 201
        with self.lock:
            if name not in self.kept or (created and ask.key is None):
                digest = hashlib.sha256(ask.payload).hexdigest()
                self.kept[name] = Kept(digest, before + last, after + last, ask.idle_ttl, word=ask.word)
        report.counts["stored" if created else "stored again"] += 1
        return name

    def note(self, name: str, ask: Ask) -> None:
        """An artifact that was acknowledged elsewhere and has no end."""
        with self.lock:
            self.kept[name] = Kept(hashlib.sha256(ask.payload).hexdigest())

    def delete(self, caller: Caller, name: str, report: Report) -> None:
        """Delete an artifact of one's own. Raises one of `Broken`; then its fate is open."""
        kept = self.kept[name]
        kept.fate = "asked"
        answer = caller.delete(name)
        if answer.status == 204:
            kept.fate = "deleted"
            report.counts["deleted"] += 1
        elif answer.status == 410 and kept.sure_until < time.time():  # noqa: TID251
            kept.fate = "kept"
        else:
            self._refused(f"delete {name}", answer, report)

    def verify(self, caller: Caller, name: str, report: Report) -> None:
        """Read an artifact and hold the answer against what was promised."""
        kept = self.kept[name]
        before = time.time()  # noqa: TID251
        answer = caller.content(name)
        after = time.time()  # noqa: TID251
        report.counts["read"] += 1
        if answer.status == 200:
            if hashlib.sha256(answer.body).hexdigest() != kept.sha256:
                report.broke("corrupt", f"{name}: {len(answer.body)} bytes are not those that were stored")
            elif kept.fate == "deleted" or before > kept.gone_after:
                report.broke("revived", f"{name} is {kept.fate} and was there")
            elif kept.idle is not None:
                kept.gone_after = max(kept.gone_after, after + kept.idle)
        elif answer.status == 410 and (kept.fate != "kept" or after > kept.sure_until):
            return
        elif self.outages and answer.status == 503:
            self._refused(f"read {name}", answer, report)
        else:
            report.broke("lost", f"{name}: {answer}")

    def verify_text(self, caller: Caller, name: str, report: Report) -> None:
        """Read the text view of an artifact, which never changes, and find the artifact by its word.

        Where nobody else deletes it meanwhile.
        """
        kept = self.kept[name]
        if kept.word is None or kept.fate != "kept":
            return
        answer, found = caller.content(name, view="text"), name in caller.finds(kept.word)
        if kept.sure_until <= time.time():  # noqa: TID251
            return
        report.counts["read as text"] += 1
        report.expect("found by its word", found, f"{name} by {kept.word}")
        digest = hashlib.sha256(answer.body).hexdigest()
        if answer.status != 200 or kept.word.encode() not in answer.body:
            report.broke("text lost", f"{name}: {answer}")
        elif kept.view not in {None, digest}:
            report.broke("text changed", f"{name}: {answer}")
        kept.view = digest

    def _refused(self, what: str, answer: Answer, report: Report) -> None:
        """Something was not done: only while storage may be away, and only with the words for that."""
        if self.outages and is_refusal(answer):
            report.counts[f"{what.partition(' ')[0]} refused with {answer.status}"] += 1
        else:
            report.broke("refused", f"{what}: {answer}")


def is_refusal(answer: Answer) -> bool:
    """Whether an answer says, in the words that are promised, that storage is away."""
    if answer.status == 202:
        said = answer.json
        return said["stored"] is False and not REFUSALS.isdisjoint(w["code"] for w in said["warnings"])
    honest = answer.status == 503 and answer.json["code"] in {*REFUSALS, "upload_fenced"}
    return honest and answer.headers.get("retry-after", "").isdecimal()


def payload(rng: random.Random) -> bytes:
    """Half small and repeated, so that blobs are shared; some large, some too large for a row."""
    dice = rng.random()
    if dice < 0.5:
        return b"line %d of many\n" % rng.randrange(20) * rng.randrange(1, 400)
    if dice < 0.95:
        return random.Random(rng.randrange(30)).randbytes(rng.randrange(40_000, 40_003))
    return random.Random(rng.randrange(5)).randbytes(1_500_000)


def ask(rng: random.Random) -> Ask:
    """A request like those that agents make: some with a key, some that expire soon."""
    dice = rng.random()
    content, word = readable(rng) if rng.random() < 0.4 else (payload(rng), None)
    return Ask(
        content,
        f"call_{rng.randrange(10**12)}",
        word=word,
        key=f"key_{rng.randrange(10**12)}" if dice < 0.3 else None,
        ttl=rng.randrange(1, 4) if 0.3 < dice < 0.4 else None,
        idle_ttl=60 if 0.4 < dice < 0.5 else None,
    )
