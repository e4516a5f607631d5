"""Column types that take whatever text a document or client holds: scrubbed where it is bound, in one place."""

from sqlalchemy import Dialect, Text, TypeDecorator
from sqlalchemy.dialects.postgresql import JSONB
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
