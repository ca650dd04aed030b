"""`coatcheck retention` and `audit`: plan removals, apply, review and undo them, through a running service.

Prints what a tired reader needs: what will be removed and why, how much, what to type next.
"""

import time
from typing import Any, Final

import click

from coatcheck.cli.command_setup import byte_size
from coatcheck.cli.exits import Exit, echo, echo_answer, echo_items, fail
from coatcheck.cli.http_client import PAGE, ask, connect, service_options
from coatcheck.cli.retention_text import line_text, plan_text, run_line, run_text, status_text, undone_text

_BASE: Final = "/v1/admin/retention"
_WAIT_SECONDS: Final = 20
"""Seconds that the service may hold the request until the run ends: less than proxies wait for an answer (nginx:
60)."""
_POLL_SECONDS: Final = 1.0
"""Seconds between two looks at a run in progress."""
_RUN: Final[dict[str, type]] = {"id": str, "job": str, "outcome": str, "artifacts": int, "items": int}
_NARROW: Final = frozenset({"evict", "session", "namespace"})
"""Jobs on a single namespace."""
_JOBS: Final = ("expire", "evict", "session", "namespace", "lost", "sweep", "purge", "storage", "verify")


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
def plan(job: str, service: str | None, key: str | None, as_json: bool, **scope: str | int | None) -> None:
    """Show what JOB would remove now, and why. Removes nothing."""
    if job in _NARROW and scope["namespace"] is None:
        fail(Exit.WRONG, f"{job} works in one namespace: name it with --namespace.")
    body = {"job": job} | {name: value for name, value in scope.items() if value is not None}
    with connect(service, key) as client:
        answer = ask(lambda: client.post(f"{_BASE}/plan", json=body), client, job=str, digest=str, artifacts=int)
    echo_answer(answer, plan_text(answer), as_json=as_json)


@retention.command()
@click.argument("digest")
@click.option("--confirm", is_flag=True, help="Confirm a plan that removes more than 20 % of the live bytes.")
@click.option("--no-wait", is_flag=True, help="Return at once instead of waiting for the end.")
@service_options
def apply(digest: str, confirm: bool, no_wait: bool, service: str | None, key: str | None, as_json: bool) -> None:
    """Apply the plan with this DIGEST, and wait until it ends."""
    body = {"digest": digest, "confirm": confirm, "wait": 0 if no_wait else _WAIT_SECONDS}
    with connect(service, key) as client:
        run = ask(lambda: client.post(f"{_BASE}/apply", json=body), client, **_RUN)
        while run["outcome"] == "running" and not no_wait:
            if not as_json:
                echo(f"  {run['artifacts']:,} of {run['planned']:,} removed ...", err=True)
            time.sleep(_POLL_SECONDS)
            run = ask(lambda: client.get(f"{_BASE}/runs/{run['id']}"), client, **_RUN)  # noqa: B023 - asked at once
    echo_answer(run, run_text(run), as_json=as_json)
    if run["outcome"] == "failed" or (run["job"] in {"storage", "verify"} and run["items"]):
        raise SystemExit(Exit.NOTHING)


@retention.command()
@click.argument("run_id", required=False)
@click.option("--job", help="Only runs of this job.")
@click.option("--outcome", type=click.Choice(("running", "finished", "failed")), help="Only runs with this outcome.")
@click.option("--limit", type=click.IntRange(1, 200), default=20, show_default=True, help="How many.")
@service_options
def runs(run_id: str | None, limit: int, service: str | None, key: str | None, as_json: bool, **where: str) -> None:
    """List past runs, newest first, or show the run RUN_ID."""
    with connect(service, key) as client:
        if run_id is not None:
            one = ask(lambda: client.get(f"{_BASE}/runs/{run_id}"), client, **_RUN)
            echo_answer(one, run_text(one), as_json=as_json)
            return
        params: dict[str, Any] = {"limit": limit} | {name: value for name, value in where.items() if value}
        answer = ask(lambda: client.get(f"{_BASE}/runs", params=params), client, items=list)
    echo_answer(
        answer, "\n".join(map(run_line, answer["items"])), as_json=as_json, none="No runs: nothing had to be done."
    )


@retention.command()
@service_options
def status(service: str | None, key: str | None, as_json: bool) -> None:
    """Show what is overdue, the state of the schedule, and the runs in progress. Exit code 1: something is wrong."""
    with connect(service, key) as client:
        answer = ask(lambda: client.get(f"{_BASE}/status"), client, jobs=list, running=list, expired=int)
    echo_answer(answer, status_text(answer), as_json=as_json)
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
def job(
    job: str, paused: bool | None, interval: int | None, service: str | None, key: str | None, as_json: bool
) -> None:
    """Pause or resume JOB of the schedule, or set its interval.

    The job deletions stands for everything that deletes by time. The service pauses it when the clock jumps by more
    than a day; to resume it confirms that the clock is right.
    """
    if paused is None and interval is None:
        fail(Exit.WRONG, "say what to change: --pause, --resume or --interval.")
    body: dict[str, Any] = {} if paused is None else {"paused": paused}
    if interval is not None:
        body["interval"] = interval or None
    with connect(service, key) as client:
        answer = ask(lambda: client.patch(f"{_BASE}/jobs/{job}", json=body), client, paused=bool, interval=object)
    pace = "as the settings say" if answer["interval"] is None else f"every {answer['interval']} s"
    sentence = f"{job} is paused." if answer["paused"] else f"{job} runs, {pace}."
    if job == "deletions":
        sentence = "Nothing is deleted by time until you resume it." if answer["paused"] else "Deletions go on."
    echo_answer(answer, sentence, as_json=as_json)


@retention.command()
@click.argument("artifacts", nargs=-1)
@click.option("--run", help="Restore everything that this run removed.")
@click.option("--namespace", help="Namespace of the artifacts (the key's own).")
@click.option("--ttl", help="New TTL, counted from now, for artifacts that have expired: 7d.")
@service_options
def undo(
    artifacts: tuple[str, ...],
    run: str | None,
    namespace: str | None,
    ttl: str | None,
    service: str | None,
    key: str | None,
    as_json: bool,
) -> None:
    """Restore ARTIFACTS, or what a run removed, while their bytes still exist. Exit code 1: not all were restored."""
    if (run is None) == (not artifacts):
        fail(Exit.WRONG, "name artifact IDs, or a run with --run.")
    body = {"namespace": namespace, "ttl": ttl, "artifacts": artifacts, "run": run}
    body = {name: value for name, value in body.items() if value}
    total: dict[str, Any] = {"restored": [], "there": [], "failed": []}
    with connect(service, key) as client:
        while True:
            part = ask(
                lambda: client.post(f"{_BASE}/undo", json=body), client, next=object, **dict.fromkeys(total, list)
            )
            for name in total:
                total[name] += part[name]
            if part["next"] is None:
                break
            body["cursor"] = part["next"]
    echo_answer(total, undone_text(total), as_json=as_json)
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
def list_(limit: int, service: str | None, key: str | None, as_json: bool, **where: str | None) -> None:
    """List the audit log, newest first."""
    params: dict[str, Any] = {name: value for name, value in where.items() if value}
    lines: list[dict[str, Any]] = []
    with connect(service, key) as client:
        while len(lines) < limit:
            page_params = params | {"limit": min(PAGE, limit - len(lines))}
            page = ask(lambda: client.get(_AUDIT, params=page_params), client, items=list, next=object)  # noqa: B023 - asked at once
            lines += page["items"]
            if page["next"] is None:
                break
            params["before"] = page["next"]
    echo_items(lines, line_text, "No matching audit lines.", as_json=as_json)
