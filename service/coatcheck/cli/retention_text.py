"""Renders plans, runs and audit lines as text for a terminal: the result first, and figures with their units."""

from typing import Any, Final

from coatcheck.cli.command_setup import in_options
from coatcheck.core.text.count import plural

Node = dict[str, Any]
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_MAX_ROWS: Final = 6
"""Maximum samples, groups and failures that are printed: a plan then fits on 24 lines. `--json` prints all."""
_LOOKING: Final = frozenset({"storage", "verify"})
"""Jobs that only examine and remove nothing."""


def size(count: int) -> str:
    """Returns bytes in readable form: 1.4 GiB."""
    value, unit = float(count), 0
    while value >= 1024 and unit < len(_UNITS) - 1:  # noqa: PLR2004 - bytes of a KiB
        value, unit = value / 1024, unit + 1
    return f"{count} B" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def when(moment: str | None) -> str:
    """Returns a moment to the second, in UTC."""
    return "-" if moment is None else moment[:19].replace("T", " ") + "Z"


def minute(moment: str) -> str:
    """Returns a moment to the minute, in UTC."""
    return moment[:16].replace("T", " ") + "Z"


def lasting(seconds: float) -> str:
    """Returns a duration in readable form: 3 h 12 min."""
    whole = round(seconds)
    if whole < 1:
        return f"{seconds * 1000:.0f} ms"
    for length, name, part, smaller in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= length:
            rest = whole % length // part
            return f"{whole // length} {name}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def scope_text(scope: Node) -> str:
    """Returns the namespaces, and the session, in which a job works."""
    where = "all namespaces" if scope["namespace"] is None else f"namespace {scope['namespace']}"
    return where if scope["session"] is None else f"session {scope['session']} of {where}"


def plan_text(plan: Node) -> str:
    """Returns what a plan would remove or examine, and what to type next."""
    count, items = plan["artifacts"], plan["items"]
    lines = [f"Plan: {plan['job']}: {scope_text(plan['scope'])}"]
    if not count and not items:
        looks = plan["job"] in _LOOKING
        lines.append("  NOTHING to look at: no bytes are stored." if looks else "  NOTHING to remove.")
        lines.append(f"  {'What it does' if looks else 'Looked for'}: {plan['why']}.")
        return "\n".join([*lines, *_render_held(plan)])
    if plan["job"] in _LOOKING:
        lines.append(f"  WILL LOOK AT {plural(items, 'blob')}, {size(plan['bytes'])}. Removes nothing.")
    elif items:
        lines.append(f"  WILL REMOVE {items:,} of: {plan['why']}. {size(plan['bytes'])}.")
    else:
        share = f"{plan['share']:.1%} of the {size(plan['live_bytes'])} there are"
        lines.append(
            f"  WILL REMOVE {count:,} of {plural(plan['live_artifacts'], 'artifact')}: {size(plan['bytes'])}, {share}."
        )
        lines.append(f"  Why these: {plan['why']}.")
    lines += _render_held(plan)
    if plan["oldest_overdue_seconds"]:
        lines.append(f"  The longest overdue expired {lasting(plan['oldest_overdue_seconds'])} ago.")
    for title, name in (
        ("by kind", "by_kind"),
        ("by tool", "by_tool"),
        ("by session", "by_session"),
        ("by age", "by_age"),
    ):
        lines += _table(title, plan[name])
    if plan["samples"]:
        lines.append("  the largest")
        # A few names show a reader better than numbers what would be removed.
        lines += [f"    {_sample(sample)}" for sample in plan["samples"][:_MAX_ROWS]]
    confirm = " --confirm" if plan["needs_confirm"] else ""
    lines += ["", f"Nothing has been done yet. To do it, until {when(plan['valid_until'])}:"]
    lines.append(f"  coatcheck retention apply {plan['digest']}{confirm}")
    if plan["needs_confirm"]:
        lines.append(f"--confirm is needed because this is {plan['share']:.1%} of all bytes: more than 20 %.")
    return "\n".join(lines)


def _render_held(plan: Node) -> list[str]:
    return [f"  {plan['held']:,} more {_are(plan['held'])} HELD and will stay."] if plan["held"] else []


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _table(title: str, groups: list[Node]) -> list[str]:
    if not groups or (len(groups) == 1 and not groups[0]["name"]):
        return []
    top_groups = groups[:_MAX_ROWS]
    width = max(len(_name(group)) for group in top_groups)
    rows = [
        f"    {_name(group):<{width}}  {group['artifacts']:>10,}  {size(group['bytes']):>10}" for group in top_groups
    ]
    rest = groups[_MAX_ROWS:]
    if rest:
        rest_count, left_bytes = sum(group["artifacts"] for group in rest), sum(group["bytes"] for group in rest)
        rows.append(f"    {f'and {len(rest)} more':<{width}}  {rest_count:>10,}  {size(left_bytes):>10}")
    return [f"  {title}", *rows]


def _name(group: Node) -> str:
    return str(group["name"])[:60] or "(none)"


def _sample(sample: Node) -> str:
    origins = [sample["kind"], sample["tool_name"], sample["session"] and f"session {sample['session'][:40]}"]
    origin = ", ".join(str(each) for each in origins if each)
    return f"{sample['id']}  {size(sample['bytes']):>10}  {when(sample['created_at'])}  {origin}"


def run_line(run: Node) -> str:
    """Returns a run in one line."""
    amount = plural(
        *((run["artifacts"], "artifact") if run["artifacts"] or not run["items"] else (run["items"], "item"))
    )
    flag = "" if run["outcome"] == "finished" else f"  {run['outcome'].upper()}"
    return (
        f"{when(run['started_at'])}  {run['id']}  {run['job']:<9}  {amount}, {size(run['bytes'])}, "
        f"by {run['actor']}, {scope_text(run['scope'])}{flag}"
    )


def run_text(run: Node) -> str:
    """Returns what a run has done."""
    words = {"finished": "DONE", "failed": "FAILED", "running": "STILL RUNNING"}
    lines = [f"{words[run['outcome']]}: {run['job']}: {scope_text(run['scope'])}"]
    if run["plan"] is not None and run["planned"]:
        lines.append(f"  Removed {_of_planned(run['artifacts'], run['planned'])}, {size(run['bytes'])}.")
    elif run["artifacts"]:
        lines.append(f"  Removed {plural(run['artifacts'], 'artifact')}, {size(run['bytes'])}.")
    elif run["items"]:
        lines.append(f"  {plural(run['items'], 'item')}, {size(run['bytes'])}.")
    if run["detail"]:
        lines.append(f"  {run['detail']}")
    if run["oldest_overdue_seconds"]:
        lines.append(f"  The longest overdue was {lasting(run['oldest_overdue_seconds'])} late.")
    end = "" if run["finished_at"] is None else f", ended {when(run['finished_at'])}"
    lines.append(f"  Run {run['id']}, by {run['actor']}, began {when(run['started_at'])}{end}.")
    if run["artifacts"] and run["outcome"] != "failed":
        life = " --ttl 7d" if run["job"] == "expire" else ""  # expired artifacts need a new TTL
        lines.append(
            f"To bring it back, within the grace of the sweep: coatcheck retention undo --run {run['id']}{life}"
        )
    if run["outcome"] == "running":
        lines.append(f"It goes on by itself. To look again: coatcheck retention runs {run['id']}")
    return "\n".join(lines)


def _of_planned(count: int, planned: int) -> str:
    if count == planned == 1:
        return "the one planned artifact"
    return f"{count:,} of the {plural(planned, 'planned artifact')}"


def status_text(answer: Node) -> str:
    """Returns the state of retention."""
    late = answer["oldest_overdue_seconds"]
    overdue = (
        "nothing"
        if not answer["expired"]
        else f"{plural(answer['expired'], 'artifact')}, the oldest by {lasting(late)}"
    )
    lines = [
        f"Overdue:     {overdue} (answered as gone all the same)",
        f"To be swept: {plural(answer['dead_blobs'], 'blob')}, {size(answer['dead_bytes'])}",
    ]
    if answer["artifacts"] is not None:
        lines.append(f"There are:   {plural(answer['artifacts'], 'artifact')}, {size(answer['stored_bytes'])} stored")
    lines.append("Schedule:")
    for job in answer["jobs"]:
        pace = "" if job["interval"] is None else f", every {job['interval']} s"
        state = f"PAUSED by {job['changed_by']}" if job["paused"] else "on"
        last = "not run yet" if job["last_at"] is None else f"last {minute(job['last_at'])}: {job['last_outcome']}"
        failed = f": {job['last_detail']}" if job["last_outcome"] == "failed" else ""
        lines.append(f"  {job['name']:<9} {state}{pace}, {last}{failed}")
    lines.append(f"Under way:   {plural(len(answer['running']), 'run')}")
    lines += [f"  {run_line(run)}" for run in answer["running"]]
    return "\n".join(lines)


def undone_text(answer: Node) -> str:
    """Returns what an undo did."""
    if not any(answer.values()):
        return "Nothing to bring back: it is back already, or its grace has passed and its bytes were swept."
    lines = [f"Brought back {plural(len(answer['restored']), 'artifact')}."]
    if answer["there"]:
        lines.append(f"{len(answer['there']):,} {'was' if len(answer['there']) == 1 else 'were'} there already.")
    if answer["failed"]:
        lines.append(f"{len(answer['failed']):,} COULD NOT be brought back:")
        lines += [f"  {each['id']}: {in_options(each['detail'])}" for each in answer["failed"][:_MAX_ROWS]]
        if len(answer["failed"]) > _MAX_ROWS:
            lines.append(f"  and {len(answer['failed']) - _MAX_ROWS:,} more; --json names them all.")
    return "\n".join(lines)


def line_text(line: Node) -> str:
    """Returns an entry of the audit log in one line."""
    about = f"  {plural(line['count'], 'artifact')}, {size(line['bytes'])}" if line["count"] else ""
    where = "" if line["namespace"] is None else f" in {line['namespace']}"
    reason = f" ({line['reason']})" if line["reason"] else ""
    run = "" if line["run"] is None else f"  {line['run']}"
    details = "".join(f"  {name}={value}" for name, value in line["details"].items())
    return (
        f"{line['seq']:>8}  {when(line['at'])}  {line['actor']}: {line['action']}{reason}{where}{about}{details}{run}"
    )
