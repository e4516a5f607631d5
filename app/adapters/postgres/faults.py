"""Constraint violations, named as what the caller can do about them."""

from collections.abc import Iterator
from contextlib import contextmanager

from asyncpg import ForeignKeyViolationError, UniqueViolationError
from sqlalchemy.exc import IntegrityError

from app.domain.errors import Conflict, NotFound
from app.domain.jobs import EQUAL_IS_LIVE


@contextmanager
def known_faults() -> Iterator[None]:
    """A foreign key carries the tenant: what it misses is nothing that this tenant has."""
    try:
        yield
    except (IntegrityError, ForeignKeyViolationError) as error:
        driver = error.orig.__cause__ if isinstance(error, IntegrityError) and error.orig else error
        if isinstance(driver, ForeignKeyViolationError):
            raise NotFound("the tenant, document or job that this belongs to does not exist") from error
        if isinstance(driver, UniqueViolationError) and driver.constraint_name == "jobs_dedup":
            raise Conflict(EQUAL_IS_LIVE) from error
        raise
