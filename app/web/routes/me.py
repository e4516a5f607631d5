"""Who am I: what a key is for, and what it may use."""

from fastapi import APIRouter

from app.web.callers import AnyCaller
from app.web.schemas import MeBody

router = APIRouter(prefix="/v1/me", tags=["me"])


@router.get("")
async def get_me(caller: AnyCaller) -> MeBody:
    """The tenant, the key, its scopes, and the limits that hold for it. Any scope will do."""
    return MeBody.of(caller)
