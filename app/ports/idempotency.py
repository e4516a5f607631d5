"""Idempotency keys, as a transaction uses them."""

from typing import Protocol
from uuid import UUID

from app.domain.idempotency import Answered
from app.domain.ids import DocumentId


class IdempotencyKeys(Protocol):
    async def take(self, key: str, fingerprint: bytes) -> Answered | None:
        """Use the key for this transaction's request: None. Or what an earlier one with the key has come to.

        One that is open is waited for; raises Conflict when that takes too long. An expired key is as none. Nothing
        is taken when the transaction does not commit.
        """
        ...

    async def answer(self, key: str, *, resource_id: UUID, made: bool, document_id: DocumentId | None = None) -> None:
        """Say what the key that this transaction has taken has come to. It goes with the document."""
        ...

    async def release(self, key: str) -> None:
        """As if it had never been used."""
        ...

    async def remove_expired(self, *, at_most: int) -> int:
        """How many it were; those that somebody is at just now are passed over."""
        ...
