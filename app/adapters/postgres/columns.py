"""Column types: text and JSON that take whatever a document or client holds, and numbers of transactions."""

from typing import Any

from sqlalchemy import Dialect, Text, TypeDecorator
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.dialects.postgresql.base import ischema_names
from sqlalchemy.types import UserDefinedType
from typing_extensions import override

from app.domain.text import scrub, scrub_json


class StorableText(TypeDecorator[str]):
    impl = Text
    cache_ok = True

    @override
    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else scrub(value)


class StorableJson(TypeDecorator[object]):
    impl = JSONB
    cache_ok = True

    @override
    def process_bind_param(self, value: object, dialect: Dialect) -> object:
        return scrub_json(value)


class TransactionNumber(UserDefinedType[int]):
    """Postgres's xid8. SQLAlchemy knows none."""

    cache_ok = True

    @override
    def get_col_spec(self, **_: Any) -> str:
        return "xid8"


# For Alembic, which compares what it reads in the database with the tables.
ischema_names["xid8"] = TransactionNumber
