"""Parses JSON from clients that is stored: refuses all that the database or an answer can't hold."""

import json
import math

NESTING = 100
"""The deepest nesting that is accepted; the encoder of answers fails at 255 levels."""

DIGITS = 300
"""The most digits of a whole number: about as many as a float can have."""

BYTE_ORDER_MARK = "\ufeff"
"""A mark that Windows programs write at the beginning. RFC 8259 allows a parser to skip it."""


def parse_json(text: str) -> object:
    """Parse strict JSON. Raises ValueError, also for NaN, with a message for the client."""
    try:
        value: object = json.loads(
            text.removeprefix(BYTE_ORDER_MARK), parse_constant=_no_constant, parse_int=_int, parse_float=_float
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    _look_through(value, NESTING)
    return value


def whole(number: object) -> object:
    """Return 150.0 as 150, because JSON Schema counts it as an integer."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _no_constant(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")


def _int(digits: str) -> int:
    if len(digits) > DIGITS:
        raise ValueError(f"a number has more than {DIGITS} digits")
    return int(digits)


def _float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("a number is too large to be stored")
    return number


def _look_through(value: object, levels: int) -> None:
    if levels == 0:
        raise ValueError(f"it is nested more than {NESTING} levels deep")
    match value:
        case str():
            _look_at(value)
        case list():
            for part in value:
                _look_through(part, levels - 1)
        case dict():
            for name, part in value.items():
                _look_at(name)
                _look_through(part, levels - 1)
        case _:
            pass


def _look_at(text: str) -> None:
    if "\x00" in text:
        raise ValueError("a NUL character can't be stored")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair is no character") from None
