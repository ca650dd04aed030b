"""Limits of callers: the buckets by a clock that the test moves, and a real server that refuses in the middle."""

import re
import socket
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest

from coatcheck.api.http.rates import Allowances
from coatcheck.core.artifact import Caller
from coatcheck.core.errors import CoatcheckError, Code
from coatcheck.core.rates import Rates, TokenBucket
from coatcheck.runtime.noop_telemetry import UNMETERED
from support.service import Service, serving

QUOTA = 1_000_000
REQUESTS = 40


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def refused(error: pytest.ExceptionInfo[CoatcheckError]) -> tuple[Code, object, object]:
    return error.value.code, error.value.extra.get("of"), error.value.extra.get("retry_after")


def test_a_bucket_gives_a_minutes_worth_at_once_and_then_what_flows_in() -> None:
    bucket = TokenBucket(60, 0.0)
    assert [bucket.take(60, 0.0), bucket.take(1, 0.0), bucket.take(1, 0.9), bucket.take(1, 1.0)] == [
        True,
        False,
        False,
        True,
    ]
    assert (bucket.count_left(1000.0), bucket.full(1000.0)) == (60, True)


def test_a_bucket_says_how_long_it_takes_until_there_is_enough() -> None:
    bucket = TokenBucket(60, 0.0)
    assert bucket.take(50, 0.0)
    assert [bucket.seconds_until(n, 0.0) for n in (10, 11, 60, 1000)] == [0.0, 1.0, 50.0, 50.0]


def test_a_clock_that_steps_back_gives_nothing() -> None:
    bucket = TokenBucket(60, 100.0)
    assert bucket.take(60, 100.0)
    assert (bucket.count_left(50.0), bucket.count_left(100.0)) == (0, 0)


def test_who_has_no_limit_is_not_counted() -> None:
    assert Allowances(0, 0, UNMETERED).of(Caller()) is None


def test_each_key_has_its_own_buckets_and_may_have_its_own_limits() -> None:
    clock = Hand()
    allowances = Allowances(1, 0, UNMETERED, clock)
    plain, other = Caller(key_id="A"), Caller(key_id="B")
    generous = Caller(key_id="C", rates=Rates(requests=3))
    free = Caller(key_id="D", rates=Rates(requests=0))
    for caller, passes in ((plain, 1), (other, 1), (generous, 3)):
        for _ in range(passes):
            allowance = allowances.of(caller)
            assert allowance is not None
            allowance.begin(None)
        again = allowances.of(caller)
        assert again is not None
        with pytest.raises(CoatcheckError) as error:
            again.begin(None)
        assert refused(error) == (Code.RATE_LIMITED, "requests", 60 // passes)
    assert allowances.of(free) is None


def test_what_a_body_announces_is_refused_before_it_comes_and_what_never_fits_for_good() -> None:
    clock = Hand()
    allowances = Allowances(0, 600, UNMETERED, clock)
    first = allowances.of(Caller())
    assert first is not None
    first.begin(600)
    first.charge(600)
    second = allowances.of(Caller())
    assert second is not None
    with pytest.raises(CoatcheckError) as error:
        second.begin(100)
    assert refused(error) == (Code.RATE_LIMITED, "bytes", 10)
    with pytest.raises(CoatcheckError) as error:
        second.begin(601)
    assert (error.value.code, error.value.extra) == (Code.PAYLOAD_TOO_LARGE, {"limit": 600})
    clock.now = 10.0
    second.begin(100)


def test_bytes_are_charged_as_they_come_and_given_back_for_what_was_answered_before() -> None:
    allowances = Allowances(0, 600, UNMETERED, Hand())
    allowance = allowances.of(Caller())
    assert allowance is not None
    allowance.charge(400)
    allowance.give_back()
    allowance.give_back()
    allowance.charge(600)
    with pytest.raises(CoatcheckError) as error:
        allowance.charge(1)
    assert refused(error) == (Code.RATE_LIMITED, "bytes", 1)


def test_bytes_of_a_refused_upload_are_charged_because_they_have_arrived() -> None:
    allowance = Allowances(0, 600, UNMETERED, Hand()).of(Caller())
    assert allowance is not None
    for size in (601, 1):
        with pytest.raises(CoatcheckError) as error:
            allowance.charge(size)
        assert error.value.code is Code.RATE_LIMITED


def test_who_has_used_nothing_of_late_is_forgotten_and_nobody_else() -> None:
    clock = Hand()
    allowances = Allowances(10, 0, UNMETERED, clock)
    spent = allowances.of(Caller(key_id="spent"))
    assert spent is not None
    for _ in range(10):
        spent.begin(None)
    for number in range(20_000):
        assert allowances.of(Caller(key_id=f"k{number}")) is not None
    assert allowances.caller_count < 15_000
    still = allowances.of(Caller(key_id="spent"))
    assert still is not None
    with pytest.raises(CoatcheckError):
        still.begin(None)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Generator[Service]:
    folder: Path = tmp_path_factory.mktemp("limited")
    with serving(folder / "data", rate_requests=REQUESTS, rate_bytes=QUOTA) as running:
        yield running


def stream(service: Service, pieces: int) -> httpx.Response:
    """Send a body that announces no length."""
    body = (b"x" * 99_999 + b"\n" for _ in range(pieces))
    return service.client.post("/v1/artifacts/raw", content=body)


def test_a_server_tells_callers_how_they_stand_and_stops_an_upload_that_is_too_much(service: Service) -> None:
    first = service.client.get("/v1/artifacts")
    assert (
        first.headers["ratelimit-policy"] == f'"requests";q={REQUESTS};w=60, "bytes";q={QUOTA};qu="content-bytes";w=60'
    )
    left = re.fullmatch(r'"requests";r=(\d+);t=\d+, "bytes";r=(\d+);t=\d+', first.headers["ratelimit"])
    assert left is not None
    assert int(left[1]) < REQUESTS
    assert int(left[2]) <= QUOTA
    too_much = stream(service, 40)
    assert (too_much.status_code, too_much.json()["code"], too_much.json()["of"]) == (429, "rate_limited", "bytes")
    assert 1 <= int(too_much.headers["retry-after"]) <= 60
    assert service.client.get("/v1/artifacts").json()["items"] == []
    announced = service.client.post("/v1/artifacts/raw", content=b"y" * 900_000)
    assert announced.status_code == 429
    never = service.client.post("/v1/artifacts/raw", content=b"y" * (QUOTA + 1))
    assert (never.status_code, never.json()["limit"]) == (413, QUOTA)


def test_what_is_the_same_for_everybody_is_not_limited(service: Service) -> None:
    for _ in range(REQUESTS + 5):
        assert service.client.get("/health/live").status_code == 200
    answer = service.client.get("/metrics")
    assert (answer.status_code, "ratelimit" in answer.headers) == (200, False)


def test_an_upload_over_its_limit_is_not_read_to_its_end(service: Service) -> None:
    """The refusal comes while the sender still sends."""
    with socket.create_connection(service.address, timeout=30) as s:
        s.sendall(b"POST /v1/artifacts/raw HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n")
        piece = b"10000\r\n" + b"z" * 65536 + b"\r\n"
        for _ in range(QUOTA // 65536 + 2):
            s.sendall(piece)
        assert s.recv(65536).startswith(b"HTTP/1.1 429 ")


def test_a_replay_of_what_was_answered_costs_no_bytes(tmp_path: Path) -> None:
    with serving(tmp_path / "data", rate_bytes=QUOTA) as service:
        answers = [
            service.client.post(
                "/v1/artifacts/raw", content=b"line of a build\n" * 18_750, headers={"idempotency-key": "k"}
            )
            for _ in range(3)
        ]
        left = [int(re.findall(r'"bytes";r=(\d+)', answer.headers["ratelimit"])[0]) for answer in answers]
        assert [answer.json()["id"] for answer in answers] == [answers[0].json()["id"]] * 3
        assert left[0] < QUOTA - 200_000
        assert min(left[1:]) > QUOTA - 450_000  # 300,000 once, not 600,000 or 900,000


def test_what_a_body_expands_to_is_charged(service: Service) -> None:
    import gzip  # noqa: PLC0415 - only here

    answer = service.client.post(
        "/v1/artifacts/raw", content=gzip.compress(b"0" * 5 * QUOTA), headers={"content-encoding": "gzip"}
    )
    assert (answer.status_code, answer.json()["code"]) == (429, "rate_limited")
