"""A circuit breaker: after outages the endpoint rests, then one question tries it. A wait it asks for holds for all.

While the endpoint is known to be out, a question that does not reach it costs its job no attempt: it gets LlmBusy. A
question that reaches the server and breaks it does cost an attempt, or it would be repeated forever.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import structlog

from app.adapters.llm.failures import AccountFault, ConnectFault, EndpointThrottled, ResponseFault
from app.domain.errors import Unavailable
from app.ports.llm import LlmBusy, LlmFault

log = structlog.get_logger()

OUTAGES = 5
"""Outages in a row before the endpoint is given a rest."""

FIRST_REST, LONGEST_REST = 5.0, 30.0
"""Seconds; doubled after each trial question that failed."""

FIRST_WAIT, LONGEST_WAIT = 2.0, 60.0
"""Seconds for a 429 that names no wait; doubled with each 429 in a row."""

SHORTEST = 1.0

NOT_USABLE = "the language model can't be used just now"


class CircuitBreaker:
    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, jitter: Callable[[], float] = random.random
    ) -> None:
        """`jitter` returns a number in 0..1."""
        self._clock = clock
        self._jitter = jitter
        self._outages = 0
        self._rests = 0
        self._rests_until = 0.0
        self._trying = False
        self._throttles = 0
        self._throttles_until = 0.0
        self._held_until = 0.0

    @contextmanager
    def passage(self) -> Iterator[None]:
        """Wrap one question. Raises LlmBusy instead of letting it through while the endpoint rests.

        Errors raised within become the port's: EndpointThrottled becomes LlmBusy, ResponseFault becomes Unavailable,
        AccountFault becomes Unavailable, ConnectFault becomes LlmBusy if the endpoint is known to be out and
        Unavailable otherwise.
        """
        tries = self._let_through()
        try:
            yield
        except (AccountFault, EndpointThrottled, ConnectFault, ResponseFault) as error:
            raise self._translated(error, tries=tries) from None
        except (LlmFault, Unavailable):
            self.answered()
            raise
        else:
            self._throttles = 0
            self.answered()
        finally:
            if tries:
                self._trying = False

    def _translated(
        self, error: AccountFault | EndpointThrottled | ConnectFault | ResponseFault, *, tries: bool
    ) -> LlmBusy | Unavailable:
        if isinstance(error, EndpointThrottled):
            self.answered()
            return LlmBusy(str(error), after=self._throttled(error.hint))
        if isinstance(error, AccountFault):
            self.answered()
            log.warning("llm_rejected", reason=str(error))
            return Unavailable(NOT_USABLE)
        out = self._out(tries=tries)
        if isinstance(error, ResponseFault):
            return Unavailable(str(error), excusable=False)
        if out:
            return LlmBusy(str(error), after=self._spread(self._rests_until - self._clock()))
        return Unavailable(str(error))

    def _let_through(self) -> bool:
        """Return True if this question is the one that tries the endpoint. Raises LlmBusy if it may not be asked."""
        now = self._clock()
        if now < self._held_until:
            raise LlmBusy("the language model asked to wait", after=self._spread(self._held_until - now))
        if self._outages < OUTAGES:
            return False
        if self._trying or now < self._rests_until:
            raise LlmBusy("the language model is down", after=self._spread(max(self._rests_until - now, FIRST_REST)))
        self._trying = True
        return True

    def answered(self) -> None:
        """Note that the server is there."""
        if self._outages >= OUTAGES:
            log.info("llm_endpoint_back")
        self._outages = self._rests = 0

    def _out(self, *, tries: bool) -> bool:
        """Count an outage. Returns True if the endpoint is now known to be out."""
        self._outages += 1
        if tries or self._outages == OUTAGES:
            rest = min(LONGEST_REST, FIRST_REST * (1 << min(self._rests, 10)))
            self._rests += 1
            self._rests_until = self._clock() + rest
            log.warning("llm_endpoint_out", outages=self._outages, rest_seconds=rest)
        return self._outages >= OUTAGES

    def _throttled(self, hint: timedelta | None) -> timedelta:
        if hint is None:
            # Many servers only refuse more than so many questions at a time, so the others go on.
            wait = min(LONGEST_WAIT, FIRST_WAIT * (1 << min(self._throttles, 10)))
            if (now := self._clock()) >= self._throttles_until:
                # Of many questions under way at the same time, one counts.
                self._throttles += 1
                self._throttles_until = now + wait
            return self._spread(wait)
        self._held_until = max(self._held_until, self._clock() + hint.total_seconds())
        return self._spread(hint.total_seconds())

    def _spread(self, seconds: float) -> timedelta:
        """Spread the waits of many callers over time. None is shorter than asked for."""
        return timedelta(seconds=max(seconds, SHORTEST) * (1 + self._jitter() / 2))
