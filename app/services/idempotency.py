"""A request with an idempotency key is done once: the key is used in the transaction that does it."""

from collections.abc import Mapping
from uuid import UUID

from app.domain.errors import IdempotencyMismatch
from app.domain.idempotency import IdempotencyKey, KeptResponse
from app.domain.ids import DocumentId
from app.ports.database import Tx


async def earlier(tx: Tx, once: IdempotencyKey | None, parts: Mapping[str, object]) -> KeptResponse | None:
    """What the request has come to when it was first sent; None: it is to be done now. To be asked before all else.

    Raises IdempotencyMismatch where it was another request, Conflict where it is just being done.
    """
    if once is None:
        return None
    fingerprint = once.fingerprint(parts)
    answered = await tx.idempotency_keys.take(once.key, fingerprint)
    if answered is not None and answered.fingerprint != fingerprint:
        raise IdempotencyMismatch(
            "this Idempotency-Key was sent with another request: use a new key for each",
            pointer="/Idempotency-Key",
        )
    return answered


async def answer(
    tx: Tx, once: IdempotencyKey | None, *, resource_id: UUID, made: bool, document_id: DocumentId | None = None
) -> None:
    if once is not None:
        await tx.idempotency_keys.answer(once.key, resource_id=resource_id, made=made, document_id=document_id)


async def gone(tx: Tx, once: IdempotencyKey | None) -> None:
    """What the first request made is there no more: the key goes as well."""
    if once is not None:
        await tx.idempotency_keys.release(once.key)
