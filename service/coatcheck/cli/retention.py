"""`coatcheck retention` and `audit`: plan removals, apply, review and undo them, through a running service.

The output says, in this order: what will be removed and why, how much that is, and what to type next.
"""

import time
from typing import Any, Final

import click

from coatcheck.cli.command_setup import byte_size
from coatcheck.cli.exits import Exit, echo, fail
from coatcheck.cli.http_client import ServiceClient, drop_missing, service_options
from coatcheck.cli.retention_text import line_text, plan_text, run_line, run_text, status_text, undone_text

_BASE: Final = "/v1/admin/retention"
_WAIT_SECONDS: Final = 20
"""Seconds for which the service may wait for the run to end: less than proxies wait for an answer (nginx: 60)."""
_POLL_SECONDS: Final = 1.0
"""Seconds between two requests for the state of a run in progress."""
_RUN: Final[dict[str, type]] = {"id": str, "job": str, "outcome": str, "artifacts": int, "items": int}
"""Fields that an answer with a run must have, with their types."""
_NARROW: Final = frozenset({"evict", "session", "namespace"})
"""Jobs that work in a single namespace."""
_JOBS: Final = ("expire", "evict", "session", "namespace", "lost", "sweep", "purge", "storage", "verify")
"""Jobs that can be planned."""


@click.group()
def retention() -> None:
    """Plan removals, apply them, review past runs, and undo them."""


@retention.command()
@click.argument("job", type=click.Choice(_JOBS))
@click.option("--namespace", help="Only in this namespace.")
@click.option("--session", help="For the job session: the session to remove.")
@click.option("--max-bytes", callback=byte_size, help="For evict: bytes of content to keep at most, such as 10gib.")
@click.option("--max-artifacts", type=click.IntRange(0), help="For evict: artifacts to keep at most.")
@service_options
def plan(service: ServiceClient, job: str, **scope: str | int | None) -> None:
    """Show what JOB would remove now, and why. Removes nothing."""
    if job in _NARROW and scope["namespace"] is None:
        fail(Exit.WRONG, f"{job} works in one namespace: name it with --namespace.")
    body = {"job": job} | drop_missing(**scope)
    answer = service.ask("POST", f"{_BASE}/plan", {"job": str, "digest": str, "artifacts": int}, json=body)
    service.echo(answer, plan_text(answer))


@retention.command()
@click.argument("digest")
@click.option("--confirm", is_flag=True, help="Confirm a plan that removes more than 20 % of the live bytes.")
@click.option("--no-wait", is_flag=True, help="Return at once instead of waiting for the end.")
@service_options
def apply(service: ServiceClient, digest: str, confirm: bool, no_wait: bool) -> None:
    """Apply the plan with this DIGEST, and wait until it ends."""
    body = {"digest": digest, "confirm": confirm, "wait": 0 if no_wait else _WAIT_SECONDS}
    run = service.ask("POST", f"{_BASE}/apply", _RUN, json=body)
    while run["outcome"] == "running" and not no_wait:
        if not service.as_json:
            echo(f"  {run['artifacts']:,} of {run['planned']:,} removed ...", err=True)
        time.sleep(_POLL_SECONDS)
        run = service.ask("GET", f"{_BASE}/runs/{run['id']}", _RUN)
    service.echo(run, run_text(run))
    if run["outcome"] == "failed" or (run["job"] in {"storage", "verify"} and run["items"]):
        raise SystemExit(Exit.NOTHING)


@retention.command()
@click.argument("run_id", required=False)
@click.option("--job", help="Only runs of this job.")
@click.option("--outcome", type=click.Choice(("running", "finished", "failed")), help="Only runs with this outcome.")
@click.option("--limit", type=click.IntRange(1, 200), default=20, show_default=True, help="How many.")
@service_options
def runs(service: ServiceClient, run_id: str | None, limit: int, **where: str | None) -> None:
    """List past runs, newest first, or show the run RUN_ID."""
    if run_id is not None:
        one = service.ask("GET", f"{_BASE}/runs/{run_id}", _RUN)
        service.echo(one, run_text(one))
        return
    params = {"limit": limit} | {name: value for name, value in where.items() if value}
    answer = service.ask("GET", f"{_BASE}/runs", {"items": list}, params=params)
    service.echo(answer, "\n".join(map(run_line, answer["items"])), none="No runs: nothing had to be done.")


@retention.command()
@service_options
def status(service: ServiceClient) -> None:
    """Show what is overdue, the state of the schedule, and the runs in progress. Exit code 1: something is wrong."""
    answer = service.ask("GET", f"{_BASE}/status", {"jobs": list, "running": list, "expired": int})
    service.echo(answer, status_text(answer))
    if any(job["last_outcome"] == "failed" for job in answer["jobs"]):
        raise SystemExit(Exit.NOTHING)


@retention.command()
@click.argument("job", type=click.Choice(("expire", "reap", "sweep", "purge", "index", "deletions")))
@click.option("--pause", "paused", flag_value=True, type=bool, default=None, help="Pause the job until it is resumed.")
@click.option("--resume", "paused", flag_value=False, type=bool, help="Resume the job.")
@click.option(
    "--interval", type=click.IntRange(0, 86_400), help="Seconds between two runs; 0: the interval in the settings."
)
@service_options
def job(service: ServiceClient, job: str, paused: bool | None, interval: int | None) -> None:
    """Pause or resume JOB of the schedule, or set its interval.

    The job deletions stands for everything that deletes by time. The service pauses it when the clock jumps by more
    than a day; to resume it confirms that the clock is right.
    """
    if paused is None and interval is None:
        fail(Exit.WRONG, "say what to change: --pause, --resume or --interval.")
    body: dict[str, Any] = {} if paused is None else {"paused": paused}
    if interval is not None:
        body["interval"] = interval or None
    answer = service.ask("PATCH", f"{_BASE}/jobs/{job}", {"paused": bool, "interval": object}, json=body)
    pace = "as the settings say" if answer["interval"] is None else f"every {answer['interval']} s"
    sentence = f"{job} is paused." if answer["paused"] else f"{job} runs, {pace}."
    if job == "deletions":
        sentence = "Nothing is deleted by time until you resume it." if answer["paused"] else "Deletions go on."
    service.echo(answer, sentence)


@retention.command()
@click.argument("artifacts", nargs=-1)
@click.option("--run", help="Restore everything that this run removed.")
@click.option("--namespace", help="Namespace of the artifacts (the key's own).")
@click.option("--ttl", help="New TTL, counted from now, for artifacts that have expired: 7d.")
@service_options
def undo(service: ServiceClient, artifacts: tuple[str, ...], run: str | None, **options: str | None) -> None:
    """Restore ARTIFACTS, or what a run removed, while their bytes still exist. Exit code 1: not all were restored."""
    if (run is None) == (not artifacts):
        fail(Exit.WRONG, "name artifact IDs, or a run with --run.")
    body = {name: value for name, value in {**options, "artifacts": artifacts, "run": run}.items() if value}
    total: dict[str, Any] = {"restored": [], "there": [], "failed": []}
    while True:
        part = service.ask("POST", f"{_BASE}/undo", {"next": object, **dict.fromkeys(total, list)}, json=body)
        for name in total:
            total[name] += part[name]
        if part["next"] is None:
            break
        body["cursor"] = part["next"]
    service.echo(total, undone_text(total))
    if total["failed"] or not (total["restored"] or total["there"]):
        raise SystemExit(Exit.NOTHING)


_AUDIT: Final = "/v1/admin/audit"


@click.group()
def audit() -> None:
    """Show who removed or changed what, when and why."""


@audit.command("list")
@click.option("--namespace", help="Only lines about this namespace.")
@click.option("--run", help="Only lines of this run.")
@click.option("--action", help="Only this action, such as artifact.removed; artifact selects all that begin with it.")
@click.option(
    "--limit", type=click.IntRange(1), default=50, show_default=True, help="Maximum number of lines, newest first."
)
@service_options
def list_(service: ServiceClient, limit: int, **where: str | None) -> None:
    """List the audit log, newest first."""
    lines = service.list_items(_AUDIT, {name: value or None for name, value in where.items()}, limit, cursor="before")
    service.echo_items(lines, line_text, "No matching audit lines.")
