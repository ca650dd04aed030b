"""Conversations of agents, replayed request by request through compaction and through what is usual instead.

Each request of a run is made smaller as it would have been sent: without a limit, and at 50 % and 25 % of the run's
largest request. Printed for each way: the tokens sent over all runs, whether every request was within its limit, how
often the previous request was an unchanged prefix of the next, what prompt caches would charge, and how many of the
identifiers that the agent used next were in the request, or in an artifact that the request names; and the same of
*first uses*, identifiers that the agent had not written itself before. Reads that an agent would then make are not
replayed, and cost nothing here.
"""

import json
import re
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import httpx

from bench.replay.caching import RULES, Request, common, dollars
from bench.replay.rivals import Rival, Sizer, rivals
from bench.replay.runs import Message, Run, load, made, used, words, written
from coatcheck.adapters.tokenizer import load_tokenizer
from support.service import serving

SHARES: Final = (None, 50, 25)
"""Limits, in percent of a run's largest request; None: without."""
_LEAST: Final = 2_000
"""Tokens below which the service takes no limit."""
_ID: Final = re.compile(r"art_[0-9]{18}")


class Outcome(NamedTuple):
    """What one way made of one run."""

    tokens: int
    requests: int
    over: int
    """Requests that were over the limit."""
    unchanged: int
    """Requests that begin with the whole request before them."""
    cost: tuple[float, ...]
    """In dollars, by each rule of caching."""
    used: int
    """Identifiers of the actions that followed."""
    visible: int
    near: int
    """Visible, or in an artifact that the request names."""
    first: int
    """Used identifiers that the agent had not written before."""
    first_visible: int


class Artifacts:
    """The contents of artifacts, each read once."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self._known: dict[str, str] = {}

    def named_in(self, text: str) -> str:
        """Everything that is in the artifacts that a text names."""
        return "\n".join(map(self._content, dict.fromkeys(_ID.findall(text))))

    def _content(self, artifact_id: str) -> str:
        if artifact_id not in self._known:
            answer = self._client.get(f"/v1/artifacts/{artifact_id}/content")
            self._known[artifact_id] = answer.text if answer.is_success else ""
        return self._known[artifact_id]


def run(folder: Path | None = None) -> None:
    """Replay a folder's transcripts, or runs made here, and print a table for each limit."""
    runs = made() if folder is None else load(folder)
    sizer = Sizer(load_tokenizer())
    peaks = {each.name: max((sizer.total(request) for request, _ in each.requests()), default=0) for each in runs}
    count = sum(1 for each in runs for _ in each.requests())
    smallest, largest = min(peaks.values()), max(peaks.values())
    print(f"{len(runs)} runs, {count} requests, the largest of each {smallest:,} to {largest:,} tokens")
    with tempfile.TemporaryDirectory() as data, serving(Path(data) / "data") as service:
        artifacts = Artifacts(service.client)
        for share in SHARES:
            limits = {name: None if share is None else peak * share // 100 for name, peak in peaks.items()}
            fit = [each for each in runs if (limits[each.name] or _LEAST) >= _LEAST and peaks[each.name] > 0]
            title = "without a limit" if share is None else f"at {share} % of each run's largest request"
            print(f"\n{title}: {len(fit)} runs")
            print(
                _row("", "tokens", "over", "prefix", *(rule.name for rule in RULES), "visible", "+1 read", "first use")
            )
            for rival in rivals(service.client, sizer):
                outcomes = [_replayed(rival, each, limits[each.name], share, sizer, artifacts) for each in fit]
                print(_line(rival.name, outcomes))


def _replayed(
    rival: Rival, run: Run, limit: int | None, share: int | None, sizer: Sizer, artifacts: Artifacts
) -> Outcome:
    sent: list[Request] = []
    over = needed = visible = near = first = first_visible = 0
    for request, action in run.requests():
        messages = rival.edit(f"{rival.name} {run.name} {share}", request, limit)
        sizes = sizer.each(messages)
        over += limit is not None and sum(sizes) > limit
        sent.append([(_dumped(each), size) for each, size in zip(messages, sizes, strict=True)])
        wanted = used(request, action)
        text = "\n".join(map(words, messages))
        seen = {each for each in wanted if each in text}
        readable = artifacts.named_in(text) if len(seen) < len(wanted) else ""
        needed += len(wanted)
        visible += len(seen)
        near += len(seen) + sum(each in readable for each in wanted - seen)
        own = written(request)
        news = {each for each in wanted if each not in own}
        first += len(news)
        first_visible += len(news & seen)
    pairs = list(pairwise(sent))
    return Outcome(
        tokens=sum(size for each in sent for _, size in each),
        requests=len(sent),
        over=over,
        unchanged=sum(common(one, other) == len(one) for one, other in pairs),
        cost=tuple(dollars(rule, sent) for rule in RULES),
        used=needed,
        visible=visible,
        near=near,
        first=first,
        first_visible=first_visible,
    )


def _dumped(message: Message) -> str:
    return json.dumps(message, ensure_ascii=False, sort_keys=True)


def _line(name: str, outcomes: list[Outcome]) -> str:
    turns = sum(each.requests - 1 for each in outcomes)
    costs = [f"${sum(each.cost[number] for each in outcomes):.3f}" for number in range(len(RULES))]
    needed = sum(each.used for each in outcomes)
    return _row(
        name,
        f"{sum(each.tokens for each in outcomes):,}",
        str(sum(each.over for each in outcomes)),
        _percent(sum(each.unchanged for each in outcomes), turns),
        *costs,
        _percent(sum(each.visible for each in outcomes), needed),
        _percent(sum(each.near for each in outcomes), needed),
        _percent(sum(each.first_visible for each in outcomes), sum(each.first for each in outcomes)),
    )


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _row(name: str, *cells: str) -> str:
    return f"{name:28}" + "".join(f"{cell:>11}" for cell in cells)
