"""The operations that need a key with the scope `admin`: the routes under /v1/admin.

Answers are JSON objects. The OpenAPI document describes their members.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from coatcheck_client.client_method import Awaited, Blocking, client_iterator, client_method
from coatcheck_client.requests import Ttl, delete, get, members, post, segment
from coatcheck_client.results import Members, MembersPage
from coatcheck_client.sender import Sender

_ROOT = "/v1/admin"


class AdminMethods:
    """The operations of administration, `client.admin`. They raise `ServiceError`.

    Without a `namespace`, a list covers all namespaces that the key administers; other operations use the key's own.
    """

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def _items(self, path: str, after: str = "cursor", **parameters: object) -> AsyncGenerator[Members]:
        return self._sender.items(f"{_ROOT}/{path}", parameters, MembersPage, after=after)

    async def _get(self, path: str, **parameters: object) -> Members:
        return await self._sender.send(get(f"{_ROOT}/{path}", Members, parameters))

    async def _send(self, method: str, path: str, **body: object) -> Members:
        return await self._sender.send(post(f"{_ROOT}/{path}", members(body), Members, method=method))

    async def _create(self, path: str, **body: object) -> Members:
        """Posts what makes something new each time. It is not sent again after an answer that was lost."""
        return await self._sender.send(post(f"{_ROOT}/{path}", members(body), Members, again=False))

    async def _delete(self, path: str, **parameters: object) -> Members:
        return await self._sender.send(delete(f"{_ROOT}/{path}", Members, parameters))

    # -------------------------------------------------------------------------------------------- keys and namespaces

    @client_iterator
    def keys(self, namespace: str | None = None) -> AsyncGenerator[Members]:
        """Yields keys, without their secrets."""
        return self._items("keys", namespace=namespace)

    @client_method
    async def create_key(
        self,
        name: str,
        scopes: Sequence[str],
        *,
        namespace: str | None = None,
        session_prefix: str | None = None,
        ttl: Ttl = None,
        requests_per_minute: int | None = None,
        bytes_per_minute: int | None = None,
    ) -> Members:
        """Creates a key. The answer's `key` is the secret, which is returned only this once."""
        body: dict[str, Any] = {"name": name, "scopes": list(scopes), "namespace": namespace}
        limits = {"requests_per_minute": requests_per_minute, "bytes_per_minute": bytes_per_minute}
        return await self._create("keys", **body, session_prefix=session_prefix, ttl=ttl, **limits)

    @client_method
    async def revoke_key(self, key_id: str) -> Members:
        """Revokes a key, from the next request on; returns what is known of the key."""
        return await self._delete(f"keys/{segment(key_id)}")

    @client_iterator
    def namespaces(self) -> AsyncGenerator[Members]:
        """Yields namespaces, by name."""
        return self._items("namespaces")

    @client_method
    async def create_namespace(self, name: str) -> Members:
        """Creates a namespace, or returns the existing one."""
        return await self._send("POST", "namespaces", name=name)

    @client_method
    async def disable_namespace(self, name: str, *, disabled: bool = True) -> Members:
        """Disables a namespace, so that its keys are refused, or enables it again; returns the namespace."""
        return await self._send("PATCH", f"namespaces/{segment(name)}", disabled=disabled)

    @client_method
    async def empty_namespace(self, name: str) -> Members:
        """Deletes everything in a namespace, in the background; returns what the namespace uses now."""
        return await self._delete(f"namespaces/{segment(name)}")

    @client_iterator
    def usage(self, namespace: str | None = None) -> AsyncGenerator[Members]:
        """Yields what each namespace uses, and its limits."""
        return self._items("usage", namespace=namespace)

    # -------------------------------------------------------------------------------------------- holds and policies

    @client_iterator
    def holds(self, namespace: str | None = None) -> AsyncGenerator[Members]:
        """Yields holds, including those that have ended."""
        return self._items("holds", namespace=namespace)

    @client_method
    async def place_hold(
        self,
        reason: str,
        *,
        namespace: str | None = None,
        session: str | None = None,
        artifact: str | None = None,
        until: str | None = None,
        ttl: Ttl = None,
    ) -> Members:
        """Forbids deleting an artifact, a session or a namespace, until a time (RFC 3339) or the hold's release."""
        body = {"namespace": namespace, "session": session, "artifact": artifact, "until": until}
        return await self._create("holds", reason=reason, **body, **({} if ttl is None else {"ttl": ttl}))

    @client_method
    async def release_hold(self, hold_id: str) -> Members:
        """Releases a hold; returns the hold."""
        return await self._delete(f"holds/{segment(hold_id)}")

    @client_method
    async def policies(self, namespace: str | None = None) -> Members:
        """Returns all policies and their version."""
        return await self._get("policies", namespace=namespace)

    @client_method
    async def set_policy(self, policy: Members, **scope: str | None) -> Members:
        """Sets the policy of a scope: `namespace`, and at most one of `session`, `kind`, `tool`, `label`."""
        return await self._send("PUT", "policies", policy=policy, **scope)

    @client_method
    async def remove_policy(self, **scope: str | None) -> Members:
        """Removes the policy of a scope; artifacts that were stored under it keep their expiry."""
        return await self._delete("policies", **scope)

    @client_method
    async def effective_policy(self, **payload: str | None) -> Members:
        """Returns the policy that applies to a payload, and which scope decides each field.

        A payload is described by `namespace`, `session`, `kind`, `tool_name` and `label`.
        """
        return await self._get("policies/effective", **payload)

    @client_method
    async def policy_history(self, **scope: str | None) -> Members:
        """Returns the versions of a scope's policy, newest first."""
        return await self._get("policies/history", **scope)

    # -------------------------------------------------------------------------------------------- retention and audit

    @client_method
    async def plan_retention(
        self,
        job: str,
        *,
        namespace: str | None = None,
        session: str | None = None,
        max_bytes: int | None = None,
        max_artifacts: int | None = None,
    ) -> Members:
        """Returns what a job would remove, and why, with the digest that applies exactly this plan; removes nothing."""
        limits = {"max_bytes": max_bytes, "max_artifacts": max_artifacts}
        return await self._send("POST", "retention/plan", job=job, namespace=namespace, session=session, **limits)

    @client_method
    async def apply_retention(self, digest: str, *, confirm: bool = False, wait: float = 5.0) -> Members:
        """Removes what a plan names, or refuses if that has changed; returns the run after at most `wait` seconds."""
        return await self._send("POST", "retention/apply", digest=digest, confirm=confirm, wait=wait)

    @client_method
    async def undo_retention(self, **what: object) -> Members:
        """Restores what was removed within the grace period: by a `run`, or `artifacts` of a `namespace`."""
        return await self._send("POST", "retention/undo", **what)

    @client_iterator
    def retention_runs(self, *, job: str | None = None, outcome: str | None = None) -> AsyncGenerator[Members]:
        """Yields retention runs, newest first."""
        return self._items("retention/runs", job=job, outcome=outcome)

    @client_method
    async def retention_run(self, run_id: str) -> Members:
        """Returns a retention run."""
        return await self._get(f"retention/runs/{segment(run_id)}")

    @client_method
    async def retention_status(self) -> Members:
        """Returns how much is overdue, the scheduled jobs with their last results, and the runs in progress."""
        return await self._get("retention/status")

    @client_method
    async def schedule_job(self, name: str, *, paused: bool | None = None, interval: Ttl = None) -> Members:
        """Pauses or resumes a scheduled job, or changes its interval; returns the job."""
        paced = {} if interval is None else {"interval": interval}
        return await self._send("PATCH", f"retention/jobs/{segment(name)}", paused=paused, **paced)

    @client_iterator
    def audit(
        self, *, namespace: str | None = None, run: str | None = None, action: str | None = None
    ) -> AsyncGenerator[Members]:
        """Yields lines of the audit log, newest first."""
        return self._items("audit", "before", namespace=namespace, run=run, action=action)


class Admin(Blocking, AdminMethods):
    """See AdminMethods."""


class AsyncAdmin(Awaited, AdminMethods):
    """See AdminMethods."""
