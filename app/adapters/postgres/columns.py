"""Column types: text and JSON that accept any document's or client's content, and numbers of transactions."""

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
    """Postgres's type xid8, which SQLAlchemy does not know."""

    cache_ok = True

    @override
    def get_col_spec(self, **_: Any) -> str:
        return "xid8"


# Alembic compares the types read from the database with those of the tables.
ischema_names["xid8"] = TransactionNumber
