"""`.env.example`, made from the settings: run `python -m tests.support.env_example` after a change to them."""

import textwrap
from enum import Enum
from pathlib import Path

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from app.settings import PREFIX, Settings

PATH = Path(__file__).parents[2] / ".env.example"

HEADER = """\
Every setting with its default. Copy to .env and uncomment what differs; the environment wins.
An unknown DAIRA_ variable is an error. Each …_URL of a database or queue and LLM_API_KEY may instead be
given as a file: DAIRA_DATABASE_URL_FILE=/run/secrets/database-url.
"""


def render() -> str:
    return "\n".join([_commented(HEADER), *(_entry(name, field) for name, field in Settings.model_fields.items())])


def assignments(text: str) -> dict[str, str]:
    """What uncommenting every assignment would set."""
    lines = [line.removeprefix("#") for line in text.splitlines() if line.startswith(f"#{PREFIX}")]
    return dict(line.split("=", 1) for line in lines)


def _entry(name: str, field: FieldInfo) -> str:
    return f"{_commented(field.description or '')}#{PREFIX}{name.upper()}={_text(field.default)}\n"


def _commented(prose: str) -> str:
    lines = [line for paragraph in prose.splitlines() for line in textwrap.wrap(paragraph, 98, break_on_hyphens=False)]
    return "".join(f"# {line}\n" for line in lines)


def _text(default: object) -> str:
    """As it is written in the environment; empty where the default is made when the program starts."""
    match default:
        case bool():
            text = str(default).lower()
        case SecretStr():
            text = default.get_secret_value()
        case Enum():
            text = str(default.value)
        case dict():
            text = ",".join(f"{_text(key)}={_text(value)}" for key, value in default.items())
        case list():
            text = ",".join(map(_text, default))
        case str() | int() | Path():
            text = str(default)
        case _:
            text = ""
    return text


if __name__ == "__main__":
    PATH.write_text(render())
