"""The issuer's public keys, fetched from where its own configuration says, cached, and refreshed sparingly.

A token chooses by `kid` among the keys that the issuer publishes. It never says where keys are.
"""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx
import structlog
from jwt import PyJWK, PyJWTError

from app.domain.errors import Unavailable

log = structlog.get_logger()

ALGORITHMS = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"}
)
"""Only asymmetric algorithms: with a symmetric one, a service that can check a token can also make one."""

FRESH = 600.0
"""Seconds for which keys are used without fetching them again."""
AGAIN = 60.0
"""Seconds between two fetches for an unknown key, so that a flood of made-up key names does not reach the issuer."""
PAUSE = 5.0
"""Seconds without another fetch after one that failed."""
KEPT = 3600.0
"""Seconds for which known keys are still used while the issuer is away."""
PATIENCE = 5.0
LARGEST = 256 * 1024


class IssuerKeys:
    def __init__(self, url: str, client: httpx.AsyncClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._client = client
        self._clock = clock
        self._keys: dict[str | None, PyJWK] = {}
        self._fetched_at = -KEPT
        self._failed_at = -PAUSE
        self._lock = asyncio.Lock()

    async def key(self, kid: str | None) -> PyJWK | None:
        """Return the key of that name, or the issuer's only key for None. None when the issuer has no such key.

        Raises Unavailable when the issuer can't be reached and the cached keys don't decide it.
        """
        if self._due(kid):
            async with self._lock:
                # Another caller may have fetched the keys while this one waited for the lock.
                if self._due(kid):
                    await self._refresh()
        age = self._clock() - self._fetched_at
        key = self._keys.get(kid) if age < KEPT else None
        if key is None and self._failed_at > self._fetched_at:
            raise Unavailable("the issuer of tokens can't be reached: try again", public=True)
        return key

    def _due(self, kid: str | None) -> bool:
        now = self._clock()
        wanted = AGAIN if kid not in self._keys else FRESH
        return now - self._fetched_at >= wanted and now - self._failed_at >= PAUSE

    async def _refresh(self) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                self._keys = _usable(await self._published())
            self._fetched_at = self._clock()
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError) as error:
            self._failed_at = self._clock()
            log.warning("issuer_unreachable", reason=f"{type(error).__name__}: {error}"[:200])

    async def _published(self) -> object:
        configuration = await self._get(self._url.rstrip("/") + "/.well-known/openid-configuration")
        if configuration.get("issuer") != self._url:
            raise ValueError("the configuration is another issuer's")
        keys_url = str(configuration.get("jwks_uri"))
        if self._url.startswith("https:") and not keys_url.startswith("https:"):
            raise ValueError("the keys are not published over https")
        return (await self._get(keys_url)).get("keys")

    async def _get(self, url: str) -> Mapping[str, Any]:
        """Fetch a JSON object of a bounded size, without following redirects."""
        content = bytearray()
        async with self._client.stream("GET", url, follow_redirects=False) as answer:
            if answer.status_code != httpx.codes.OK:
                raise ValueError(f"status {answer.status_code}")
            async for chunk in answer.aiter_bytes():
                content += chunk
                if len(content) > LARGEST:
                    raise ValueError(f"more than {LARGEST:,} bytes")
        found = json.loads(content)
        if not isinstance(found, dict):
            raise ValueError("no JSON object")  # noqa: TRY004 - what was sent is wrong, not how we call
        return found


def _usable(published: object) -> dict[str | None, PyJWK]:
    """The keys by name, and under None if there is only one. Symmetric keys and keys for encryption are left out."""
    keys: dict[str | None, PyJWK] = {}
    for each in published if isinstance(published, list) else []:
        if isinstance(each, dict) and each.get("use", "sig") == "sig" and (key := _key(each)):
            keys.setdefault(key.key_id, key)
    if len(keys) == 1:
        keys[None] = next(iter(keys.values()))
    else:
        keys.pop(None, None)
    return keys


def _key(published: dict[str, Any]) -> PyJWK | None:
    try:
        key = PyJWK.from_dict(published)
    except (PyJWTError, ValueError, TypeError):
        return None
    return key if key.algorithm_name in ALGORITHMS else None
