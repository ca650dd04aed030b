"""The overview page: stored data and saved tokens, activity, artifacts that expire next, failed runs, and health."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final, Literal

from msgspec import Struct

from coatcheck.api.artifacts import ArtifactView, artifact_views
from coatcheck.api.http.access import ADMIN, READ
from coatcheck.api.page.call import PageAnswer, PageCall, Shown, page
from coatcheck.core.event import UsageDelta
from coatcheck.core.keys import EVERYWHERE
from coatcheck.core.retention.jobs import RunOutcome
from coatcheck.ports.catalog import ActivityHour, ArtifactFilter

Range = Literal["24h", "7d", "90d"]
_RANGES: Final[dict[Range, tuple[timedelta, int]]] = {
    "24h": (timedelta(hours=1), 24),
    "7d": (timedelta(hours=3), 56),
    "90d": (timedelta(days=1), 90),
}
"""By range, the duration of a bar and the number of bars."""
_LISTED_ARTIFACTS: Final = 8
"""Maximum artifacts in each list of the overview."""
_LISTED_RUNS: Final = 5
"""Maximum failed runs in the overview."""


class OverviewQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """The query parameters of the overview: the range of time that it shows."""

    range: Range = "24h"


class ActivitySeries(Struct, frozen=True):
    """Activity over time: the bars of three plots, and the totals."""

    artifacts: list[tuple[datetime, int]]
    """New artifacts, by the start of each bar."""
    reads: list[tuple[datetime, int]]
    """Reads of artifacts, by the start of each bar."""
    saved: list[tuple[datetime, int]]
    """Saved tokens, by the start of each bar; negative if reads cost more than cards saved."""
    total: UsageDelta
    """Sums over all bars."""

    @property
    def rows(self) -> list[tuple[datetime, int, int, int]]:
        """The bars that have any activity, each as its start, new artifacts, reads and saved tokens."""
        rows = zip(self.artifacts, self.reads, self.saved, strict=True)
        return [(at, new, reads, saved) for (at, new), (_, reads), (_, saved) in rows if new or reads or saved]


@page("GET /")
async def show_overview(call: PageCall) -> PageAnswer:
    """Shows the overview, with the parts that the caller's key may see."""
    query = call.query(OverviewQuery)
    services, who = call.services, call.who
    # A key of `*` has no namespace of its own, so there are no artifacts to list.
    reads = call.may(READ) and who.namespace != EVERYWHERE
    span, count = _RANGES[query.range]
    activity = await call.services.overview.activity(who, days=(span * count).days + 1)
    values = {
        "range": query.range,
        "ranges": list(_RANGES),
        "series": series(activity, call.now, span, count),
        "readiness": await services.readiness(),
        "doubt": services.deletions.pause_reason if call.everywhere else None,
        "status": await services.retention.status(who) if call.everywhere else None,
        "usage": await _usage(call),
        "failed": await _failures(call),
        "expiring": await artifact_views(services.holds, await call.services.overview.expiring(who, _LISTED_ARTIFACTS))
        if reads
        else None,
        "newest": await _newest(call) if reads else None,
        "bound": who.session_prefix is not None,
    }
    return Shown("overview.jinja", values)


def series(hours: Iterable[ActivityHour], now: datetime, span: timedelta, count: int) -> ActivitySeries:
    """Returns activity by the hour as `count` bars of `span` each. The last bar contains the present moment."""
    seconds = int(span.total_seconds())
    last = int(now.timestamp()) // seconds
    sums = [UsageDelta() for _ in range(count)]
    total = UsageDelta()
    for each in hours:
        # Compute the number of the hour's bar, counted from the oldest. Hours before the oldest bar are left out.
        at = int(each.hour.timestamp()) // seconds - last + count - 1
        if 0 <= at < count:
            sums[at].add(each.spent)
            total.add(each.spent)
    starts = [datetime.fromtimestamp((last - count + 1 + at) * seconds, now.tzinfo) for at in range(count)]
    return ActivitySeries(
        artifacts=[(at, each.artifacts) for at, each in zip(starts, sums, strict=True)],
        reads=[(at, each.reads) for at, each in zip(starts, sums, strict=True)],
        saved=[(at, count_saved_tokens(each)) for at, each in zip(starts, sums, strict=True)],
        total=total,
    )


def count_saved_tokens(spent: UsageDelta) -> int:
    """Returns the saved tokens: the tokens of payloads, less the tokens of cards and reads. May be negative."""
    return spent.raw_tokens - spent.given_tokens - spent.read_tokens


async def _newest(call: PageCall) -> tuple[ArtifactView, ...]:
    listing = await call.services.browse(call.who, ArtifactFilter(), None, _LISTED_ARTIFACTS)
    return await artifact_views(call.services.holds, listing.items)


async def _usage(call: PageCall) -> object:
    if not call.may(ADMIN) or call.everywhere:
        return None
    return (await call.services.usage(call.who, None, cursor=None, limit=1)).items[0]


async def _failures(call: PageCall) -> object:
    """Returns the latest failed runs; None if the caller is not an administrator."""
    if not call.may(ADMIN):
        return None
    return await call.services.retention.runs(
        call.who, before=None, limit=_LISTED_RUNS, job=None, outcome=RunOutcome.FAILED
    )
