"""Bytes that are encoded in outputs of a history: payloads of their own, and names in the outputs' text."""

import base64
from collections.abc import Mapping, Sequence
from typing import cast

from msgspec import Struct, structs

from coatcheck.core.context.body.encoding import plain
from coatcheck.core.context.body.shape import Object, Value
from coatcheck.core.context.replaceable import PlannedPayload
from coatcheck.core.parts.blobs import identify_blobs
from coatcheck.core.text.long_text import LongText, is_text
from coatcheck.core.views import parts
from coatcheck_client.contract.blobs import Blob, with_ids


class EncodedOutput(Struct, frozen=True):
    """An output with encoded bytes in it."""

    payload: PlannedPayload
    text: bytes
    blobs: list[Blob]
    payloads: list[PlannedPayload]
    """What to store of each."""

    def name(self, ids: Mapping[str, str | None]) -> PlannedPayload:
        """Returns the output with names in place of what is stored; `ids` are by the keys of the payloads."""
        names = [(blob, ids.get(payload.key)) for blob, payload in zip(self.blobs, self.payloads, strict=True)]
        content = with_ids(self.text, names).decode("utf-8", "replace")
        return structs.replace(self.payload, content=content) if any(ids.values()) else self.payload


def find_encoded(payloads: Sequence[PlannedPayload]) -> list[EncodedOutput]:
    """Returns the outputs among payloads that have encoded bytes worth an artifact of their own."""
    out: list[EncodedOutput] = []
    for payload in payloads:
        if payload.kind != "output" or not _is_plain_text(payload.content):
            continue
        content = payload.content
        text = content.data if isinstance(content, LongText) else parts.payload(plain(content)).data
        blobs = identify_blobs(text)
        if blobs:
            out.append(
                EncodedOutput(payload, text, blobs, [_payload(payload, text, n, b) for n, b in enumerate(blobs)])
            )
    return out


def _is_plain_text(content: Value) -> bool:
    """Returns whether a payload is text, or several texts that are stored as one."""
    if not isinstance(content, list):
        return is_text(content)
    return all(item.get("type") == "text" for item in cast("list[Object]", content))


def _payload(output: PlannedPayload, text: bytes, number: int, blob: Blob) -> PlannedPayload:
    code = base64.b64encode(blob.decode(text)).decode()
    resource = {"uri": "", "mimeType": blob.media_type or "application/octet-stream", "blob": code}
    content = [{"type": "resource", "resource": resource}]
    return structs.replace(output, kind="media", key=f"{output.key}.{number}", content=content, same_as=None)
