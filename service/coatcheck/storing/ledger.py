"""Token accounts of sessions, counted on the request path until they are written down.

Beside them, what happened in each namespace, in sessions or in none. Nothing waits for an account: all is added up in
memory and written every second, all sessions in one change. A crash loses what was not written down, the last second or
two. Payloads without a session have no account.
"""

from copy import copy

from coatcheck.core.artifact import Artifact
from coatcheck.core.session_usage import UsageDelta


class Ledger:
    """What no row shows yet. Bounded: over the limit, new sessions are not counted until it is written down."""

    LIMIT = 100_000

    def __init__(self) -> None:
        self._spent: dict[tuple[str, str], UsageDelta] = {}
        self._activity: dict[str, UsageDelta] = {}

    def took(self, namespace: str, session: str | None, raw: int, given: int) -> None:
        """A payload of so many tokens was taken in for the first time, and so many were answered in its place."""
        self._add(namespace, session, UsageDelta(artifacts=1, raw_tokens=raw, given_tokens=given))

    def gave(self, namespace: str, session: str | None, more: int) -> None:
        """What was answered in a payload's place was so many tokens larger than its card; or smaller, below zero."""
        self._add(namespace, session, UsageDelta(given_tokens=more))

    def read(self, artifact: Artifact, tokens: int) -> None:
        """Adds the tokens of an answer that read from an artifact."""
        self._add(artifact.namespace, artifact.said.session, UsageDelta(reads=1, read_tokens=tokens))

    def compacted(self, namespace: str, session: str | None, unsent: int) -> None:
        """Adds the tokens by which compaction made a request smaller."""
        self._add(namespace, session, UsageDelta(compactions=1, unsent_tokens=unsent))

    def measured(self, namespace: str, session: str | None, persisted: int, transient: int) -> None:
        """Records the last measurement of a session's context."""
        self._add(namespace, session, UsageDelta(persisted_tokens=persisted, transient_tokens=transient))

    def _add(self, namespace: str, session: str | None, spent: UsageDelta) -> None:
        busy = self._activity.get(namespace)
        if busy is not None:
            busy.add(spent)
        elif len(self._activity) < self.LIMIT:
            self._activity[namespace] = copy(spent)
        if session is None:
            return
        held = self._spent.get((namespace, session))
        if held is not None:
            held.add(spent)
        elif len(self._spent) < self.LIMIT:
            self._spent[namespace, session] = spent

    def drain(self) -> list[tuple[str, str, UsageDelta]]:
        """Returns what was counted and starts from zero."""
        spent, self._spent = self._spent, {}
        return [(namespace, session, each) for (namespace, session), each in spent.items()]

    def drain_activity(self) -> list[tuple[str, UsageDelta]]:
        """Returns what happened in each namespace since this was last called."""
        activity, self._activity = self._activity, {}
        return list(activity.items())
