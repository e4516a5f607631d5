"""JSON from outside that is kept: nothing in it that the database or an answer can't hold."""

import json

NESTING = 100
"""Levels of JSON that are kept; the encoder of answers gives up at 255."""


def parse_json(text: str) -> object:
    """Raises ValueError, also for NaN."""

    def refuse(constant: str) -> object:
        raise ValueError(f"{constant} is not JSON")

    try:
        value: object = json.loads(text, parse_constant=refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not _fits(value, NESTING):
        raise ValueError(f"it is nested more than {NESTING} levels deep")
    if "\\u0000" in text or "\x00" in text:
        raise ValueError("a NUL character can't be stored")
    # A lone surrogate and 1e999 (infinity) pass json.loads, and the database accepts neither.
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    return value


def whole(number: object) -> object:
    """To JSON Schema, 150.0 is an integer."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _fits(value: object, levels: int) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_fits(part, levels - 1) for part in parts)
