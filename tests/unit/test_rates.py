"""Requests a minute: a whole minute's quota at rest, evenly given back, for each tenant, forgotten when idle."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.ids import TenantId
from app.domain.tenants import ROUNDING, WINDOW, decide_rate
from app.services.limits import RateLimiter

ACME, BOLT = TenantId("acme"), TenantId("bolt")
LIMITS = st.integers(1, 500)
NOW = st.floats(0, 1e7)


class Clock:
    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@given(limit=LIMITS, now=NOW)
def test_at_rest_exactly_the_limit_is_admitted_at_once_and_counted_down(limit: int, now: float) -> None:
    used = 0.0
    for left in reversed(range(limit)):
        used, verdict = decide_rate(used, now=now, limit=limit)
        assert (verdict.admitted, verdict.remaining, verdict.limit) == (True, left, limit)
    _, verdict = decide_rate(used, now=now, limit=limit)
    assert (verdict.admitted, verdict.remaining) == (False, 0)


@given(limit=LIMITS, now=NOW)
def test_who_waits_as_told_is_admitted_and_who_comes_sooner_is_not(limit: int, now: float) -> None:
    used = now + WINDOW
    _, refused = decide_rate(used, now=now, limit=limit)
    assert not refused.admitted
    assert 0 < refused.wait <= WINDOW / limit + 1e-6
    assert decide_rate(used, now=now + refused.wait, limit=limit)[1].admitted
    assert not decide_rate(used, now=now + refused.wait * 0.9, limit=limit)[1].admitted


@given(limit=LIMITS, now=NOW, spent=st.floats(0, WINDOW))
def test_until_the_time_that_is_told_no_more_than_what_remains_is_admitted(
    limit: int, now: float, spent: float
) -> None:
    used, verdict = decide_rate(now + spent, now=now, limit=limit)
    moment = now + max(0.0, verdict.wait - 2 * ROUNDING * WINDOW / limit)
    admitted = 0
    while admitted <= verdict.remaining:
        used, next_one = decide_rate(used, now=moment, limit=limit)
        if not next_one.admitted:
            break
        admitted += 1
    assert admitted <= verdict.remaining


@given(limit=st.integers(1, 50), gaps=st.lists(st.floats(0, 20), min_size=1, max_size=200))
def test_no_minute_admits_more_than_twice_the_limit_however_it_is_asked(limit: int, gaps: list[float]) -> None:
    now, used, admitted = 100.0, 0.0, []
    for gap in gaps:
        now += gap
        used, verdict = decide_rate(used, now=now, limit=limit)
        if verdict.admitted:
            admitted.append(now)
    for start in admitted:
        assert sum(start <= moment < start + WINDOW for moment in admitted) <= 2 * limit


def test_a_steady_flood_is_let_through_at_the_limit() -> None:
    used, admitted = 0.0, 0
    for step in range(600 * 10):
        used, verdict = decide_rate(used, now=1000 + step / 10, limit=60)
        admitted += verdict.admitted
    # A minute's quota at the start, then a minute's quota a minute.
    assert admitted == pytest.approx(60 + 600, abs=1)


def test_a_refused_request_costs_nothing() -> None:
    used = 1000 + WINDOW
    for _ in range(100):
        used, _ = decide_rate(used, now=1000, limit=10)
    assert used == 1000 + WINDOW


def test_a_limit_that_is_changed_holds_from_the_next_request() -> None:
    # Half of the minute is used: half of any quota is left.
    used = 1000 + WINDOW / 2
    assert decide_rate(used, now=1000, limit=60)[1].remaining == 29
    assert decide_rate(used, now=1000, limit=10)[1].remaining == 4
    assert decide_rate(used, now=1000, limit=600)[1].remaining == 299


def test_tenants_have_a_quota_each() -> None:
    rates = RateLimiter(Clock())
    assert [rates.judge(ACME, limit=2).admitted for _ in range(3)] == [True, True, False]
    assert rates.judge(BOLT, limit=2).admitted


def test_the_quota_comes_back_with_time() -> None:
    clock = Clock()
    rates = RateLimiter(clock)
    verdicts = [rates.judge(ACME, limit=6) for _ in range(7)]
    assert not verdicts[-1].admitted
    clock.now += verdicts[-1].wait
    assert rates.judge(ACME, limit=6).admitted
    assert not rates.judge(ACME, limit=6).admitted
    clock.now += WINDOW
    assert [rates.judge(ACME, limit=6).admitted for _ in range(7)] == [True] * 6 + [False]


def test_idle_tenants_are_forgotten_and_busy_ones_are_not() -> None:
    clock = Clock()
    rates = RateLimiter(clock)
    for n in range(10_000):
        rates.judge(TenantId(f"t{n}"), limit=60)
    clock.now += WINDOW - 1
    assert [rates.judge(ACME, limit=1).admitted for _ in range(2)] == [True, False]
    clock.now += 1
    rates.judge(BOLT, limit=60)
    assert set(rates._used_until) == {ACME, BOLT}
    assert not rates.judge(ACME, limit=1).admitted


def test_a_hundred_thousand_a_minute_are_counted_as_well() -> None:
    rates = RateLimiter(Clock(1e6))
    admitted = sum(rates.judge(ACME, limit=100_000).admitted for _ in range(101_000))
    assert math.isclose(admitted, 100_000, abs_tol=1)
