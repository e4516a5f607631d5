"""A request with an idempotency key is done once: the key is used in the transaction that does it."""

from collections.abc import Mapping
from uuid import UUID

from app.domain.errors import IdempotencyMismatch
from app.domain.idempotency import IdempotencyKey, KeptResponse
from app.domain.ids import DocumentId
from app.ports.database import Tx


async def earlier_result(tx: Tx, once: IdempotencyKey | None, parts: Mapping[str, object]) -> KeptResponse | None:
    """Return the first response to this request, or None if the request is new. Call it before all other work.

    Raises IdempotencyMismatch if the key came with another request, Conflict while the first one is being done.
    """
    if once is None:
        return None
    fingerprint = once.fingerprint(parts)
    answered = await tx.idempotency_keys.take(once.key, fingerprint)
    if answered is not None and answered.fingerprint != fingerprint:
        raise IdempotencyMismatch(
            "this Idempotency-Key was sent with another request; use a new key for each request",
            pointer="/Idempotency-Key",
        )
    return answered


async def record_result(
    tx: Tx, once: IdempotencyKey | None, *, resource_id: UUID, made: bool, document_id: DocumentId | None = None
) -> None:
    if once is not None:
        await tx.idempotency_keys.answer(once.key, resource_id=resource_id, made=made, document_id=document_id)


async def forget_result(tx: Tx, once: IdempotencyKey | None) -> None:
    """Release the key, because the resource that the first request made no longer exists."""
    if once is not None:
        await tx.idempotency_keys.release(once.key)
