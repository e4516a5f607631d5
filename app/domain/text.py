"""Text that every store can hold: no NUL (Postgres refuses it) and no lone surrogate (UTF-8 has none)."""

from collections.abc import Mapping
from dataclasses import replace

from app.domain.jobs import JobError, Progress

ERROR_LIMIT = 2000
"""Characters of an error message that are kept: enough to act upon, too few for a document."""


def scrub(text: str) -> str:
    """Join surrogate pairs, and drop lone surrogates and NUL. Everything else stays."""
    if text.isascii():
        return text.replace("\0", "")
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    return joined.replace("\0", "")


def scrub_json(value: object) -> object:
    """Scrub every text in a JSON value, names included. Return a copy, so that changes elsewhere don't reach it."""
    match value:
        case str():
            return scrub(value)
        case Mapping():
            return scrub_mapping(value)
        case list() | tuple():
            return [scrub_json(part) for part in value]
        case _:
            return value


def scrub_mapping(value: Mapping[str, object]) -> dict[str, object]:
    return {scrub(name): scrub_json(part) for name, part in value.items()}


def scrub_error(error: JobError | None) -> JobError | None:
    if error is None:
        return None
    return JobError(code=scrub(error.code), message=scrub(error.message)[:ERROR_LIMIT])


def scrub_progress(progress: Progress | None) -> Progress | None:
    return None if progress is None else replace(progress, unit=scrub(progress.unit))
