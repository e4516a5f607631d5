"""The forms of URLs in settings. None is repeated in an error, because it may hold a password."""

import re
from urllib.parse import urlsplit

from app.adapters.postgres import urls as postgres

REDIS = frozenset({"redis", "rediss", "unix"})
PORT = re.compile(r":([0-9]+)$")
QUEUE_NAME = re.compile(r"[A-Za-z0-9_-]{1,70}")
BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*/?")


def check_scheme(url: str, allowed: frozenset[str]) -> None:
    if url and _scheme(url) not in allowed:
        raise ValueError(f"a URL that begins with {' or '.join(f'{scheme}://' for scheme in sorted(allowed))}")
    ports = PORT.findall(urlsplit(url).netloc.rpartition("@")[2])
    if any(len(port) > len(str(postgres.LAST_PORT)) or int(port) > postgres.LAST_PORT for port in ports):
        raise ValueError(f"a URL's port is at most {postgres.LAST_PORT}")


def check_database(url: str) -> None:
    if url:
        postgres.check_files(postgres.parse_url(url))


def check_queue(url: str) -> None:
    if _scheme(url) in postgres.SCHEMES:
        check_database(url)
        return
    check_scheme(url, postgres.SCHEMES | REDIS | {"sqs", "memory"})
    if url.startswith("sqs:") and not QUEUE_NAME.fullmatch(url.removeprefix("sqs://")):
        raise ValueError("an SQS queue is sqs://name, with up to 70 letters, digits, - and _; no account, no region")


def _scheme(url: str) -> str:
    return url.partition("://")[0]


def check_blobs(url: str) -> None:
    check_scheme(url, frozenset({"file", "memory", "s3"}))
    parts = urlsplit(url)
    if parts.scheme == "file" and (parts.netloc or not parts.path.startswith("/")):
        raise ValueError("a folder is given as file:///an/absolute/path")
    if parts.scheme == "s3" and not BUCKET.fullmatch(url):
        raise ValueError(
            "a bucket is given as s3://bucket or s3://bucket/prefix: no credentials, nothing to be escaped"
        )


def check_llm(url: str) -> None:
    check_scheme(url, frozenset({"http", "https"}))
    if url and (not urlsplit(url).hostname or "@" in urlsplit(url).netloc or re.search(r"[#\s]", url)):
        raise ValueError("the language model's address is http(s)://host/path; a key goes into DAIRA_LLM_API_KEY")
