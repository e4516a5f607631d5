"""Every setting, read once at the top. An unknown DAIRA_ variable is an error: it is a typing mistake."""

import os
from datetime import timedelta
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Self

import platformdirs
from dotenv import dotenv_values
from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from app.domain.doorbells import Lane
from app.urls import check_blobs, check_database, check_llm, check_queue

PREFIX = "DAIRA_"
MOST_SLOTS = 1_000
OF_THE_CLIENT = frozenset({"DAIRA_URL", "DAIRA_API_KEY", "DAIRA_API_KEY_FILE"})
"""Read by the commands that use the API, for whoever calls a service that runs elsewhere."""
OF_THE_LAUNCHER = frozenset({"DAIRA_VENV"})
"""Read by `./daira`; a shell in which it is exported starts installed programs too."""


OF_A_FILE = "_FILE"
"""The end of a variable's name that gives the file of a secret, as mounted ones are given."""

TRACED_BY = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER")


class Environment(StrEnum):
    DEVELOPMENT = "development"
    PRODUCTION = "production"


class Role(StrEnum):
    WEB = "web"
    WORKER = "worker"
    ALL = "all"


def is_traced() -> bool:
    """True when OpenTelemetry's own variables ask for spans."""
    asked = any(os.environ.get(name) for name in TRACED_BY)
    return asked and os.environ.get("OTEL_TRACES_EXPORTER") != "none" and os.environ.get("OTEL_SDK_DISABLED") != "true"


def _given() -> dict[str, str]:
    """The variables of Daira's, from the environment and `.env`, in capitals. The environment wins."""
    told = {name.upper(): value or "" for name, value in (dotenv_values(".env") | os.environ).items()}
    return {name: value for name, value in told.items() if name.startswith(PREFIX)}


def read_secret(path: str, *, variable: str) -> str:
    """Raises ValueError, naming variable and file, if the file can't be read or holds nothing."""
    try:
        secret = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not in UTF-8"
        raise ValueError(f"{variable}: {path} can't be read ({reason})") from None
    if not secret:
        raise ValueError(f"{variable}: {path} is empty")
    return secret


def default_data_dir() -> Path:
    """Root's must be reachable for the unprivileged account that runs its Postgres, which /root is not."""
    return Path("/var/lib/daira") if os.geteuid() == 0 else platformdirs.user_data_path("daira")


class Settings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_file=".env",
        extra="ignore",
        frozen=True,
        # What was set is not repeated: it may be a password, and a fault of two settings repeats all of them.
        hide_input_in_errors=True,
    )

    env: Environment = Field(
        Environment.DEVELOPMENT, description="`production` refuses to start on anything that could lose work."
    )
    role: Role = Field(Role.ALL, description="`web` serves the API, `worker` runs jobs, `all` does both.")
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on.")
    data_dir: Path = Field(
        default_factory=default_data_dir,
        description="Where development keeps its database and documents. Default: the user's data folder.",
    )
    database_url: SecretStr = Field(
        SecretStr(""),
        description="`postgresql://daira_app:…@host/daira`, or `memory://`. Empty: an embedded Postgres.",
    )
    migration_database_url: SecretStr = Field(
        SecretStr(""), description="As daira_owner; used by `daira migrate` and `daira db init` alone."
    )
    admin_database_url: SecretStr = Field(
        SecretStr(""), description="As an administrator of the server; used by `daira db init` alone."
    )
    listen_url: SecretStr = Field(
        SecretStr(""),
        description="A direct connection, for LISTEN, where DATABASE_URL leads through a pooler in transaction mode"
        " (PgBouncer). Empty: DATABASE_URL is direct.",
    )
    queue_url: SecretStr = Field(
        SecretStr(""),
        description="`postgres://…`, `redis://…`, `sqs://name` (a queue name-<lane> for each lane) or `memory://`."
        " Empty: the main database is the queue too.",
    )
    aws_endpoint_url: str | None = Field(None, description="Another server than Amazon's, for tests and look-alikes.")
    aws_region: str | None = Field(None, description="Default: as the AWS libraries find it.")
    blob_url: str = Field(
        "",
        description="`s3://bucket/prefix`, `file:///path` or `memory://`. Empty: a folder of DATA_DIR.",
        examples=["s3://daira-documents/production"],
    )
    lanes: Annotated[dict[Lane, int], NoDecode] = Field(
        {Lane.OCR: 2, Lane.LLM: 16, Lane.WEBHOOK: 16},
        description="Jobs that a worker runs at a time, by lane; a lane left out is not worked on.",
    )
    pool_size: int = Field(10, ge=1, le=1000, description="Database connections for requests and handlers, each.")
    start_timeout: int = Field(
        0,
        ge=0,
        le=86_400,
        description="Seconds that `daira serve` waits at its start for what it can't reach, before it ends with 75."
        " 0: no end.",
    )
    lease_seconds: int = Field(60, ge=3, le=86_400, description="A job of a worker silent for so long goes to another.")
    sweep_seconds: int = Field(30, ge=1, le=3_600, description="Between looks for lost doorbells and lost workers.")
    grace_seconds: int = Field(25, ge=0, le=86_400, description="What running jobs get to finish at a stop.")
    client_patience_seconds: int = Field(
        30, ge=1, le=3_600, description="A client that sends or takes next to nothing for so long is cut off."
    )
    retention_days: int = Field(
        0, ge=0, le=36_500, description="Older documents are removed, with all that belongs to them. 0: none is."
    )
    job_retention_days: int = Field(
        30,
        ge=0,
        le=36_500,
        description="Ended jobs without a document, such as the deliveries of webhooks, are removed after so long."
        " 0: none is.",
    )
    purge_seconds: int = Field(
        21_600, ge=1, le=604_800, description="Between purges: of documents beyond retention, and of bytes without one."
    )
    max_upload_bytes: int = Field(100 * 1024 * 1024, ge=1, description="Of one document; a tenant may have its own.")
    max_queued_jobs: int = Field(
        10_000, ge=1, le=2**31 - 1, description="Of one tenant, queued or running; a tenant may have its own."
    )
    requests_per_minute: int = Field(
        100_000, ge=1, le=2**31 - 1, description="Of one tenant, by each web process; a tenant may have its own."
    )
    max_open_requests: int = Field(
        500, ge=1, le=100_000, description="Of one tenant, under way or waiting at a time, by each web process."
    )
    max_event_streams: int = Field(
        100, ge=1, le=100_000, description="Of one tenant, open at a time, by each web process."
    )
    max_pages: int = Field(2_000, ge=1, description="Of one document.")
    oidc_issuer: str = Field(
        "",
        pattern="^(https?://[^?#]+)?$",
        description="`https://…`, whose tokens are accepted beside API keys. Empty: none.",
    )
    oidc_audience: str = Field("", description="What a token must be meant for; needed with OIDC_ISSUER.")
    oidc_tenant_claim: str = Field("tenant", min_length=1, description="The claim that names the tenant.")
    oidc_scope_claim: str = Field("scope", min_length=1, description="The claim with scopes: a text or a list.")
    ocr: str = Field(
        "auto",
        pattern="^(auto|tesseract|rapidocr|null)$",
        description="The engine. `auto`: Tesseract, and RapidOCR, where it is installed, for pages that Tesseract is"
        " not sure of; `null` reads nothing.",
    )
    ocr_memory_bytes: int | None = Field(
        None, ge=2**28, description="Of one reader process. Default: 1.5 GiB, with RapidOCR 3 GiB."
    )
    ocr_page_seconds: int = Field(60, ge=1, le=3_600, description="For one page, before its reader is killed.")
    ocr_document_seconds: int = Field(
        21_600,
        ge=60,
        le=604_800,
        description="For reading one document, over all attempts. Pages not read by then are reported as unreadable.",
    )
    renderers: int = Field(
        2, ge=1, le=64, description="Processes for page images and searchable PDFs, at most; they come when asked for."
    )
    tessdata: Path | None = Field(None, description="Folder of Tesseract's language models. Default: the installed.")
    pg_bin: Path | None = Field(None, description="`bin` folder of another Postgres for the embedded server.")
    pg_user: str | None = Field(None, description="The account that runs the embedded server when started by root.")
    llm_base_url: str = Field(
        "",
        description="`https://…/v1` of a language model behind OpenAI's chat completions: docs/llm.md. Empty: none.",
    )
    llm_model: str = Field("", description="The model's name, as its server knows it; needed with LLM_BASE_URL.")
    llm_api_key: SecretStr = Field(SecretStr(""), description="Empty: none is sent.")
    llm_context_tokens: int = Field(
        8192, ge=1024, le=10_000_000, description="How long question and answer may be together: as the server has it."
    )
    llm_first_byte_seconds: float = Field(
        120,
        gt=0,
        le=3_600,
        description="The language model may be silent for so long, at first or in between.",
    )
    llm_total_seconds: float = Field(600, gt=0, le=86_400, description="For one answer of the language model.")
    llm_max_calls: int = Field(
        100, ge=1, le=100_000, description="Questions that one job may ask the language model, tries included."
    )
    llm_max_tokens: int = Field(
        2_000_000, ge=1_000, le=10**10, description="Tokens that one job may spend, read and written together."
    )
    webhook_allow_private: bool = Field(
        default=False,
        description="Webhooks may lead to private addresses, to this machine, to any port, and over plain http in"
        " production too: docs/webhooks.md.",
    )
    log_level: str = Field("info", pattern="^(debug|info|warning|error)$", description="Least level that is logged.")
    log_format: str = Field("auto", pattern="^(auto|json|text)$", description="`auto`: text on a terminal, else JSON.")
    debug: bool = Field(default=False, description="Tracebacks in answers; refused in production.")
    cors_origins: Annotated[list[str], NoDecode] = Field(
        [], description="Origins of browsers that may call the API, comma-separated; `*` is refused in production."
    )

    @field_validator("lanes", mode="before")
    @classmethod
    def _parse_lanes(cls, value: object) -> object:
        """`ocr=2,llm=16`."""
        if not isinstance(value, str):
            return value
        try:
            pairs = [part.split("=") for part in value.split(",") if part.strip()]
            return {Lane(lane.strip()): int(slots) for lane, slots in pairs}
        except ValueError:
            known = ", ".join(Lane)
            raise ValueError(f"lanes look like `ocr=2,llm=16`, of {known}") from None

    @field_validator("lanes")
    @classmethod
    def _check_lanes(cls, value: dict[Lane, int]) -> dict[Lane, int]:
        if any(not 1 <= slots <= MOST_SLOTS for slots in value.values()):
            raise ValueError(f"a lane has 1 to {MOST_SLOTS} slots; leave it out to not work on it")
        return value

    @field_validator("cors_origins", mode="before")
    @classmethod
    def _parse_origins(cls, value: object) -> object:
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @field_validator("*", mode="before")
    @classmethod
    def _strip(cls, value: object) -> object:
        """A mounted secret ends with a line break, and a copied value with a blank."""
        return value.strip() if isinstance(value, str) else value

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, values: object) -> object:
        known = {PREFIX + name.upper() for name in cls.model_fields} | OF_THE_CLIENT | OF_THE_LAUNCHER
        known |= {PREFIX + name.upper() + OF_A_FILE for name in cls.secrets()}
        unknown = sorted(_given().keys() - known)
        if unknown:
            raise ValueError(f"unknown settings: {', '.join(unknown)}; .env.example lists all")
        return values

    @model_validator(mode="before")
    @classmethod
    def _read_secret_files(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        given = _given()
        for name in cls.secrets():
            variable = PREFIX + name.upper()
            if path := given.get(variable + OF_A_FILE, "").strip():
                if values.get(name):
                    raise ValueError(f"{variable} and {variable}{OF_A_FILE} are both set: leave one out")
                values[name] = read_secret(path, variable=variable + OF_A_FILE)
        return values

    @classmethod
    def secrets(cls) -> list[str]:
        """The settings that a file may hold, named by the variable with `_FILE` at the end."""
        return [name for name, field in cls.model_fields.items() if field.annotation is SecretStr]

    @field_validator("database_url", "migration_database_url", "admin_database_url", "listen_url")
    @classmethod
    def _check_database_url(cls, value: SecretStr, info: ValidationInfo) -> SecretStr:
        url = value.get_secret_value()
        if url.startswith("memory:") and info.field_name == "database_url":
            return value
        check_database(url)
        return value

    @field_validator("queue_url")
    @classmethod
    def _check_queue_url(cls, value: SecretStr) -> SecretStr:
        check_queue(value.get_secret_value())
        return value

    @field_validator("blob_url")
    @classmethod
    def _check_blob_url(cls, value: str) -> str:
        check_blobs(value)
        return value

    @field_validator("llm_base_url")
    @classmethod
    def _check_llm_base_url(cls, value: str) -> str:
        check_llm(value)
        return value

    @field_validator("llm_api_key")
    @classmethod
    def _check_llm_api_key(cls, value: SecretStr) -> SecretStr:
        key = value.get_secret_value()
        if not (key.isascii() and key.isprintable()):
            raise ValueError("a key has printable ASCII characters alone")
        return value

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        # In production the guard refuses them, with all other faults.
        alone = self.memory_store and self.env is not Environment.PRODUCTION
        if alone and not self.memory_queue:
            raise ValueError(
                "DAIRA_DATABASE_URL=memory:// has no database to be the queue: set DAIRA_QUEUE_URL=memory://"
            )
        if alone and self.role is not Role.ALL:
            raise ValueError("DAIRA_DATABASE_URL=memory:// is seen by one process alone: it needs DAIRA_ROLE=all")
        if self.ocr == "rapidocr" and find_spec("rapidocr") is None and self.role is not Role.WEB:
            raise ValueError("DAIRA_OCR=rapidocr needs the extra `rapidocr`: pip install 'daira[rapidocr]'")
        if bool(self.oidc_issuer) != bool(self.oidc_audience):
            raise ValueError("DAIRA_OIDC_ISSUER and DAIRA_OIDC_AUDIENCE are set together, or neither is")
        if self.llm_base_url and not self.llm_model:
            raise ValueError("DAIRA_LLM_BASE_URL needs DAIRA_LLM_MODEL, the model's name")
        if self.llm_first_byte_seconds >= self.llm_total_seconds:
            raise ValueError("DAIRA_LLM_FIRST_BYTE_SECONDS is a part of DAIRA_LLM_TOTAL_SECONDS, and less")
        return self

    def without_worker(self) -> Self:
        """For commands: the services alone, no worker and no readers."""
        return self.model_copy(update={"role": Role.WEB, "ocr": "null"})

    @property
    def embedded(self) -> bool:
        return not self.database_url.get_secret_value()

    @property
    def pooled(self) -> bool:
        return bool(self.listen_url.get_secret_value())

    @property
    def memory_store(self) -> bool:
        return self.database_url.get_secret_value().startswith("memory:")

    @property
    def memory_queue(self) -> bool:
        return self.queue_url.get_secret_value().startswith("memory:")

    @property
    def memory_blobs(self) -> bool:
        return self.blob_url.startswith("memory:")

    @property
    def lease(self) -> timedelta:
        return timedelta(seconds=self.lease_seconds)

    @property
    def sweep_every(self) -> timedelta:
        return timedelta(seconds=self.sweep_seconds)

    @property
    def purge_every(self) -> timedelta:
        return timedelta(seconds=self.purge_seconds)

    @property
    def retention(self) -> timedelta | None:
        return timedelta(days=self.retention_days) if self.retention_days else None

    @property
    def job_retention(self) -> timedelta | None:
        return timedelta(days=self.job_retention_days) if self.job_retention_days else None

    @property
    def grace(self) -> timedelta:
        return timedelta(seconds=self.grace_seconds)

    @property
    def ocr_page_timeout(self) -> timedelta:
        return timedelta(seconds=self.ocr_page_seconds)

    @property
    def document_timeout(self) -> timedelta:
        return timedelta(seconds=self.ocr_document_seconds)
