"""An issuer of tokens on this machine: it publishes keys over HTTP, signs what it is told to, and counts who asks."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

AUDIENCE = "daira"


def rsa_key(bits: int = 2048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


def public(key: Any, kid: str, **more: object) -> dict[str, Any]:
    """As a JWK."""
    kinds: list[tuple[type, Any]] = [
        (rsa.RSAPrivateKey, RSAAlgorithm),
        (ec.EllipticCurvePrivateKey, ECAlgorithm),
        (ed25519.Ed25519PrivateKey, OKPAlgorithm),
    ]
    algorithm = next(algorithm for kind, algorithm in kinds if isinstance(key, kind))
    return {**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid, "use": "sig", **more}


@dataclass(kw_only=True)
class TestIssuer:
    __test__ = False

    url: str
    key: Any = field(default_factory=rsa_key)
    published: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    """Paths."""
    configuration: dict[str, Any] = field(default_factory=dict)
    answer: bytes | None = None
    """In place of all that is asked for."""

    def claims(self, **changed: object) -> dict[str, Any]:
        """Of a token that is right but for what is changed; None leaves one out."""
        now = int(time.time())
        right = {"iss": self.url, "aud": AUDIENCE, "sub": "robot", "iat": now, "exp": now + 300}
        right |= {"tenant": "acme", "scope": "documents:read openid"}
        return {name: value for name, value in (right | changed).items() if value is not None}

    def token(
        self, *, key: Any = None, algorithm: str = "RS256", headers: dict[str, Any] | None = None, **changed: object
    ) -> str:
        return jwt.encode(
            self.claims(**changed), key or self.key, algorithm=algorithm, headers={"kid": "one"} | (headers or {})
        )

    @property
    def looks(self) -> int:
        return self.asked.count("/keys")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        self.asked.append(path)
        configuration = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"} | self.configuration
        found = {"/.well-known/openid-configuration": configuration, "/keys": {"keys": self.published}}.get(path)
        body = self.answer if self.answer is not None else json.dumps(found).encode()
        status = b"200 OK" if found else b"404 Not Found"
        writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, len(body)) + body)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def issuing() -> AsyncIterator[TestIssuer]:
    issuer = TestIssuer(url="")
    issuer.published = [public(issuer.key, "one")]
    server = await asyncio.start_server(issuer.serve, "127.0.0.1", 0)
    issuer.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield issuer
