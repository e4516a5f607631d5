"""Constraint violations, named as what the caller can do about them."""

from collections.abc import Iterator
from contextlib import contextmanager

from asyncpg import ForeignKeyViolationError
from sqlalchemy.exc import IntegrityError

from app.domain.errors import NotFound


@contextmanager
def known_faults() -> Iterator[None]:
    """A foreign key carries the tenant: what it misses is nothing that this tenant has."""
    try:
        yield
    except (IntegrityError, ForeignKeyViolationError) as error:
        driver = error.orig.__cause__ if isinstance(error, IntegrityError) and error.orig else error
        if isinstance(driver, ForeignKeyViolationError):
            raise NotFound("the tenant, document or job that this belongs to does not exist") from error
        raise
