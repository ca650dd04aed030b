"""The requests that are sent to an S3 store, each with a time limit, and with errors that callers understand.

This is the only module that uses the S3 client library. It retries requests that may be repeated, for a limited time.
It knows nothing about blobs: callers give it names, nonces and bytes. Cancelling a request closes its connection.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar, cast

import obstore
from msgspec import Struct
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store

from coatcheck.adapters.blobs.s3_location import S3Location, s3_error, says_absent, status_of, too_slow
from coatcheck.core.errors import CoatcheckError, Code

if TYPE_CHECKING:
    from obstore import ListStream, ObjectMeta
    from obstore.store import ClientConfig, RetryConfig, S3Config

T = TypeVar("T")

PART_BYTES: Final = 8 * 1024 * 1024
"""Bytes of one part. An upload has at most 10,000 parts (S3 User Guide), so an object has at most 78 GiB. All parts but
the last have the same size, which some stores require."""
_PARTS_AT_ONCE: Final = 2
"""Parts that are sent at once. With the part that is being filled, an upload takes 24 MiB of memory."""

_OBJECTS_PER_PAGE: Final = 1000
"""Objects that one request of a listing returns. S3 allows no more."""
_NOT_SATISFIABLE: Final = 416
"""The HTTP status for a range beyond the end of an object (RFC 9110)."""
_MIB: Final = 1 << 20
"""Bytes for which a transfer may take one second more, so that a slow connection is not taken for a silent store."""
_NONCE: Final = "coatcheck-nonce"
"""Name of the user metadata that says which writer wrote an object."""
_FAILURES: Final = (BaseError, OSError)


class Patience(Struct, frozen=True, kw_only=True):
    """How long to wait for a store, in seconds, before a call raises `storage_unavailable`."""

    connect: float = 2.0
    """Time to open a connection."""
    attempt: float = 4.0
    """Time for one attempt at a small request, short enough that a stalled connection leaves time for another attempt.
    A conditional write has one second more per MiB."""
    call: float = 10.0
    """Total time for a call with little data, including retries."""
    probe: float = 2.5
    """Total time for a check of the store's health."""
    part: float = 20.0
    """Time for one attempt at sending a part, which then needs 0.4 MB/s."""
    room: float = 30.0
    """Time until an upload can take more bytes, while earlier parts are sent, perhaps again."""
    join: float = 60.0
    """Time to send the last parts and join all parts; a store takes longer the more parts there are."""
    retries: int = 3
    """Maximum number of retries of a request that may be repeated: reads, deletions, parts, and every request that was
    answered with a 5xx or got no connection."""


class ObjectStat(NamedTuple):
    """The size of an object, and the nonce of its writer; None: the object has none."""

    size: int
    nonce: str | None


class ListedObject(NamedTuple):
    """An object in a listing."""

    name: str
    size: int
    modified_at: datetime


class _File(Protocol):
    """The methods that we use of the client library's file, which is written in parts."""

    def write(self, buffer: bytes, /) -> Awaitable[int]: ...
    def close(self) -> Awaitable[None]: ...
    def __aexit__(self, kind: type[BaseException], error: None, trace: None, /) -> Awaitable[None]: ...


class Upload:
    """An upload in parts. The object does not exist before `join`."""

    def __init__(self, file: _File, patience: Patience) -> None:
        self._file = file
        self._patience = patience
        self._closed = False

    async def write(self, data: bytes) -> None:
        """Appends bytes; returns once the upload can take more."""
        await _within(self._patience.room, self._file.write(data))

    async def join(self) -> None:
        """Sends the last part and joins all parts into one object. Even if this fails, the object may exist."""
        self._closed = True
        await _within(self._patience.join, self._file.close())

    async def abandon(self) -> None:
        """Removes the parts from the store.

        After `join` this does nothing: if `join` failed, the client library has tried to remove the parts itself.
        """
        if self._closed:
            return
        self._closed = True
        async with _deadline(self._patience.call):
            try:
                await self._file.__aexit__(CoatcheckError, None, None)
            except FileNotFoundError:
                return  # already removed
            except _FAILURES as error:
                raise s3_error(error) from error


class S3Bucket:
    """One bucket of an S3 store."""

    def __init__(self, location: S3Location, patience: Patience, part_bytes: int = PART_BYTES) -> None:
        self._patience = patience
        self.part_bytes = part_bytes
        self._quick = _client(location, patience, patience.attempt)
        self._slow = _client(location, patience, patience.part)
        self._fresh = _client(location, patience, patience.attempt, fresh=True)

    async def put_new(self, name: str, data: bytes, nonce: str) -> None:
        """Writes an object unless its name is taken.

        If the answer to a request is lost, tries again. If the first request has succeeded, the second attempt finds
        our own object and recognises it by its nonce.

        Raises:
            FileExistsError: another writer has taken the name.
        """
        seconds = self._patience.attempt + len(data) / _MIB
        async with _deadline(self._patience.call + 2 * len(data) / _MIB):
            if not await self._put_new(name, data, nonce, seconds, last=False):
                await self._put_new(name, data, nonce, seconds, last=True)

    async def _put_new(self, name: str, data: bytes, nonce: str, seconds: float, *, last: bool) -> bool:
        """Makes one attempt; returns whether our object exists now. False: another attempt may succeed."""
        try:
            async with asyncio.timeout(seconds):
                await obstore.put_async(self._slow, name, data, mode="create", attributes={_NONCE: nonce})
        except AlreadyExistsError as error:
            object_stat = await self.look(name)
            if object_stat is not None and object_stat != ObjectStat(len(data), nonce):
                raise FileExistsError(name) from error
            # There is no object: another write of this name was in progress (409), and neither may have succeeded.
            if object_stat is None and last:
                raise s3_error(error) from error
            return object_stat is not None
        except TimeoutError as error:
            if last:
                raise too_slow(seconds) from error
            return False
        except _FAILURES as error:
            if last or status_of(error) is not None:
                raise s3_error(error) from error
            return False
        return True

    async def try_write(self, name: str, size: int) -> None:
        """Writes an object of `size` zero bytes, replacing an existing one.

        With a size of 0, does not replace an existing object, and reports no error if there is one.
        """
        try:
            await obstore.put_async(self._quick, name, bytes(size), mode="overwrite" if size else "create")
        except AlreadyExistsError:
            return
        except _FAILURES as error:
            raise s3_error(error) from error

    @asynccontextmanager
    async def probing(self) -> AsyncGenerator[None]:
        """Limits the time of a check of the store's health, which is done within this context."""
        async with _deadline(self._patience.probe):
            yield

    def upload(self, name: str, nonce: str) -> Upload:
        """Begins an upload in parts. It replaces an existing object, so the caller must claim the name first."""
        file = obstore.open_writer_async(
            self._slow,
            name,
            attributes={_NONCE: nonce},
            buffer_size=self.part_bytes,
            max_concurrency=_PARTS_AT_ONCE,
        )
        return Upload(cast("_File", file), self._patience)

    async def look(self, name: str) -> ObjectStat | None:
        """Returns an object's properties; None if the store says that there is no such object."""
        async with _deadline(self._patience.call):
            for _ in range(2):
                try:
                    result = await obstore.get_async(self._quick, name, options={"head": True})
                except FileNotFoundError:
                    # The answer to HEAD has no body, so it cannot say whether the object or the bucket is missing. The
                    # answer to GET can.
                    if await self.get(name, 0, 1) is None:
                        return None
                except _FAILURES as error:
                    raise s3_error(error) from error
                else:
                    return ObjectStat(result.meta["size"], result.attributes.get(_NONCE))
        raise CoatcheckError(Code.STORAGE_UNAVAILABLE, "The S3 store gave contradictory answers. Retry the same call.")

    async def get(self, name: str, start: int, length: int, *, fresh: bool = False) -> bytes | None:
        """Returns up to `length` bytes from `start`, by one request; None if the store says that there is no object.

        Returns fewer bytes at the end of the object, and no bytes if the object ends at `start` or before. With
        `fresh`, the request uses a new connection, and caches between us and the store are bypassed.
        """
        client = self._fresh if fresh else self._quick
        async with _deadline(self._patience.call):
            try:
                data = await obstore.get_range_async(client, name, start=start, length=length)
            except _FAILURES as error:
                if says_absent(error):
                    return None
                if status_of(error) == _NOT_SATISFIABLE:
                    return b""
                raise s3_error(error) from error
        return data.to_bytes()

    async def delete(self, name: str) -> None:
        """Deletes an object. A missing one is no error."""
        async with _deadline(self._patience.call):
            try:
                await obstore.delete_async(self._quick, name)
            except _FAILURES as error:
                if not says_absent(error):
                    raise s3_error(error) from error

    async def objects(self, prefix: str) -> AsyncIterator[ListedObject]:
        """Yields every object whose name begins with a prefix, which is empty or ends in a slash.

        The names are requested page by page.
        """
        listing = obstore.list(self._quick, prefix or None, chunk_size=_OBJECTS_PER_PAGE)  # pyright: ignore[reportUnknownMemberType] - one overload names a type of a library that is not installed
        pages: ListStream[Sequence[ObjectMeta]] = listing
        while (page := await _within(self._patience.call, anext(pages, None))) is not None:
            for entry in page:
                yield ListedObject(entry["path"], entry["size"], entry["last_modified"])


@asynccontextmanager
async def _deadline(seconds: float) -> AsyncGenerator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise too_slow(seconds) from error


async def _within(seconds: float, request: Awaitable[T]) -> T:
    async with _deadline(seconds):
        try:
            return await request
        except _FAILURES as error:
            raise s3_error(error) from error


def _client(location: S3Location, patience: Patience, attempt: float, *, fresh: bool = False) -> S3Store:
    config: S3Config = {
        "virtual_hosted_style_request": location.addressing == "virtual",
        # An object is deleted by DELETE instead of by a POST with a list of objects: every store supports DELETE, and
        # answers it with a status.
        "disable_bulk_delete": True,
        "conditional_put": "etag",
    }
    if location.endpoint is not None:
        scheme, _, host = location.endpoint.partition("://")
        virtual = location.addressing == "virtual"
        config["endpoint"] = f"{scheme}://{location.bucket}.{host}" if virtual else location.endpoint
    if location.region is not None:
        config["region"] = location.region
    if location.checksum != "none":
        config["checksum_algorithm"] = location.checksum
    if location.encryption is not None:
        config["server_side_encryption"] = location.encryption
    if location.kms_key is not None:
        config["sse_kms_key_id"] = location.kms_key
    options: ClientConfig = {
        "allow_http": location.endpoint is not None and location.endpoint.startswith("http://"),
        "connect_timeout": timedelta(seconds=patience.connect),
        "timeout": timedelta(seconds=attempt),
        "pool_idle_timeout": timedelta(seconds=30),
        "default_content_type": "application/octet-stream",
    }
    if fresh:
        options["default_headers"] = {"cache-control": "no-cache"}
        options["pool_max_idle_per_host"] = "0"
    retries: RetryConfig = {
        "max_retries": patience.retries,
        "retry_timeout": timedelta(seconds=0.8 * patience.call),
        "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=1), "base": 2},
    }
    return S3Store(location.bucket, config=config, client_options=options, retry_config=retries)
