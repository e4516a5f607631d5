"""The service's address and key: from the environment, then `.env`, then the file of a running `daira up`."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import typer
from dotenv import dotenv_values

from app.domain.errors import NotFound
from app.settings import default_data_dir, read_secret

DEV_FILE = "dev.json"
ENV_FILE = ".env"
"""In the working directory, as for the service's own settings."""


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    url: str
    api_key: str


def find(*, url: str | None, api_key: str | None, data_dir: Path | None) -> ServiceAddress:
    """Raises NotFound, saying what to set, where nothing tells; BadParameter for what can't be used."""
    told = dotenv_values(ENV_FILE) | os.environ
    url = url or told.get("DAIRA_URL")
    api_key = api_key or _told_key(told)
    if url and api_key:
        return ServiceAddress(_usable(url), _sendable(api_key))
    left = _left_by_up(data_dir or Path(told.get("DAIRA_DATA_DIR") or default_data_dir()))
    if left is None:
        raise NotFound(
            "no service found: start one with `daira up` (if it has a --data-dir, give that here too),"
            " or set DAIRA_URL and DAIRA_API_KEY"
        )
    if url and url.rstrip("/") != left["url"]:
        # The key of the service here is nothing for one that is elsewhere.
        raise NotFound(f"no key for {url}: set DAIRA_API_KEY")
    return ServiceAddress(left["url"], _sendable(api_key or left["api_key"]))


def _told_key(told: Mapping[str, str | None]) -> str | None:
    """Raises BadParameter if the key and its file are both given, or if the file can't be read."""
    key, path = (told.get("DAIRA_API_KEY") or "").strip(), (told.get("DAIRA_API_KEY_FILE") or "").strip()
    if not path:
        return key or None
    if key:
        raise typer.BadParameter("DAIRA_API_KEY is set too: leave one out", param_hint="DAIRA_API_KEY_FILE")
    try:
        return read_secret(path, variable="the key")
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="DAIRA_API_KEY_FILE") from None


def _usable(url: str) -> str:
    try:
        parsed = httpx.URL(url.strip())
        usable = parsed.scheme in {"http", "https"} and bool(parsed.host)
    except (httpx.InvalidURL, UnicodeError):
        usable = False
    if not usable:
        raise typer.BadParameter(f"{url!r} is no address such as http://127.0.0.1:8000", param_hint="DAIRA_URL")
    return url.strip().rstrip("/")


def _sendable(api_key: str) -> str:
    """The key as a header. It is never shown, because it may be nearly right."""
    api_key = api_key.strip()
    if not (api_key.isascii() and api_key.isprintable()):
        raise typer.BadParameter("it has characters that no key has: copy it once more", param_hint="DAIRA_API_KEY")
    return api_key


def _left_by_up(folder: Path) -> dict[str, str] | None:
    """Nothing, too, where the file is not as `daira up` has left it."""
    try:
        left = json.loads((folder / DEV_FILE).read_text())
        return {name: str(left[name]) for name in ("url", "api_key")}
    except (OSError, ValueError, LookupError, TypeError):
        return None
