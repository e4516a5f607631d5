"""The tables, as SQLAlchemy Core. Alembic compares them with the migrated schema."""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    DateTime,
    Float,
    ForeignKeyConstraint,
    Index,
    Integer,
    Interval,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, UUID

from app.adapters.postgres.columns import StorableJson, StorableText, TransactionNumber

metadata = MetaData(schema="daira")


def _time(name: str, default: str | None = None, *, nullable: bool = False) -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=nullable, server_default=text(default) if default else None)


def _counter(name: str, default: str = "0") -> Column[int]:
    return Column(name, Integer, nullable=False, server_default=text(default))


def _belongs_to(table: str, *columns: str, name: str) -> ForeignKeyConstraint:
    target = {"tenants": ("tenant_id",), "documents": ("tenant_id", "id"), "jobs": ("tenant_id", "id")}[table]
    return ForeignKeyConstraint(columns, [f"daira.{table}.{c}" for c in target], name=name, ondelete="CASCADE")


def _named(table: str) -> CheckConstraint:
    return CheckConstraint("tenant_id <> ''", name=f"{table}_tenant_check")


def _page_columns() -> list[Column[Any]]:
    return [
        Column("number", Integer, nullable=False),
        Column("text", StorableText, nullable=False),
        Column("source", Text, nullable=False),
        Column("confidence", Float(53)),
        Column("width", Float(53)),
        Column("height", Float(53)),
        Column("rotation", SmallInteger, nullable=False),
        Column("language", StorableText, nullable=False),
        Column("words", StorableJson, nullable=False, server_default=text("'[]'")),
        Column("warnings", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    ]


tenants = Table(
    "tenants",
    metadata,
    Column("tenant_id", Text, nullable=False),
    Column("state", Text, nullable=False, server_default=text("'active'")),
    _time("created_at", "now()"),
    Column("max_running", Integer),
    Column("max_queued", Integer),
    Column("max_upload_bytes", BigInteger),
    Column("requests_per_minute", Integer),
    PrimaryKeyConstraint("tenant_id", name="tenants_pkey"),
    Index("tenants_resting", "tenant_id", postgresql_where=text("state <> 'active'")),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("tenant_id", Text, nullable=False),
    Column("id", UUID, nullable=False),
    Column("name", StorableText, nullable=False),
    Column("secret_sha256", LargeBinary, nullable=False),
    Column("scopes", ARRAY(Text), nullable=False, server_default=text("'{admin}'")),
    _time("created_at", "now()"),
    _time("expires_at", nullable=True),
    _time("revoked_at", nullable=True),
    _time("last_used_at", nullable=True),
    PrimaryKeyConstraint("tenant_id", "id", name="api_keys_pkey"),
    UniqueConstraint("tenant_id", "secret_sha256", name="api_keys_secret_key"),
    _named("api_keys"),
    _belongs_to("tenants", "tenant_id", name="api_keys_tenant_fkey"),
)

documents = Table(
    "documents",
    metadata,
    Column("tenant_id", Text, nullable=False),
    Column("id", UUID, nullable=False),
    Column("filename", StorableText, nullable=False),
    Column("media_type", StorableText, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("language", StorableText, nullable=False),
    Column("metadata", StorableJson, nullable=False, server_default=text("'{}'")),
    Column("page_count", Integer),
    Column("warnings", StorableJson, nullable=False, server_default=text("'[]'")),
    _time("created_at", "now()"),
    PrimaryKeyConstraint("tenant_id", "id", name="documents_pkey"),
    UniqueConstraint("tenant_id", "sha256", name="documents_bytes_key"),
    _named("documents"),
    _belongs_to("tenants", "tenant_id", name="documents_tenant_fkey"),
    Index("documents_newest", "tenant_id", "created_at", "id"),
)

pages = Table(
    "pages",
    metadata,
    Column("tenant_id", Text, nullable=False),
    Column("document_id", UUID, nullable=False),
    *_page_columns(),
    PrimaryKeyConstraint("tenant_id", "document_id", "number", name="pages_pkey"),
    _named("pages"),
    _belongs_to("documents", "tenant_id", "document_id", name="pages_document_fkey"),
)

drafts = Table(
    "drafts",
    metadata,
    Column("tenant_id", Text, nullable=False),
    Column("job_id", UUID, nullable=False),
    *_page_columns(),
    PrimaryKeyConstraint("tenant_id", "job_id", "number", name="drafts_pkey"),
    _named("drafts"),
    _belongs_to("jobs", "tenant_id", "job_id", name="drafts_job_fkey"),
)

terms = Table(
    "terms",
    metadata,
    Column("tenant_id", Text, nullable=False),
    Column("lexeme", StorableText, nullable=False),
    Column("stemming", Text, nullable=False),
    Column("document_id", UUID, nullable=False),
    # Each number holds a page's number and the word's weight there: see `search/index.py`.
    Column("places", ARRAY(Integer), nullable=False),
    PrimaryKeyConstraint("tenant_id", "lexeme", "stemming", "document_id", name="terms_pkey"),
    _named("terms"),
    _belongs_to("documents", "tenant_id", "document_id", name="terms_document_fkey"),
    Index("terms_of_document", "tenant_id", "document_id"),
)

indexed = Table(
    "indexed",
    metadata,
    Column("tenant_id", Text, nullable=False),
    Column("stemming", Text, nullable=False),
    Column("document_id", UUID, nullable=False),
    PrimaryKeyConstraint("tenant_id", "stemming", "document_id", name="indexed_pkey"),
    _named("indexed"),
    _belongs_to("documents", "tenant_id", "document_id", name="indexed_document_fkey"),
    Index("indexed_documents", "tenant_id", "document_id"),
)

answers = Table(
    "answers",
    metadata,
    Column("tenant_id", Text, nullable=False),
    Column("job_id", UUID, nullable=False),
    Column("question", Text, nullable=False),
    Column("text", StorableText),
    Column("fault", StorableText),
    Column("input_tokens", Integer, nullable=False),
    Column("output_tokens", Integer, nullable=False),
    PrimaryKeyConstraint("tenant_id", "job_id", "question", name="answers_pkey"),
    _named("answers"),
    _belongs_to("jobs", "tenant_id", "job_id", name="answers_job_fkey"),
)

jobs = Table(
    "jobs",
    metadata,
    Column("tenant_id", Text, nullable=False),
    Column("id", UUID, nullable=False),
    # Checks keep it from being NULL. It is no NOT NULL column because the indexes of live jobs need a planner that does
    # not know this.
    Column("kind", StorableText),
    Column("document_id", UUID),
    Column("state", Text, nullable=False, server_default=text("'queued'")),
    Column("dedup_key", StorableText),
    Column("priority", SmallInteger, nullable=False, server_default=text("0")),
    Column("payload", StorableJson, nullable=False, server_default=text("'{}'")),
    _time("run_after", "now()"),
    _time("ring_after", "now() + interval '5 seconds'", nullable=True),
    Column("rings", SmallInteger, nullable=False, server_default=text("0")),
    _counter("attempts"),
    _counter("failures"),
    _counter("expiries"),
    _counter("releases"),
    _counter("max_attempts", "5"),
    Column("cancel_requested", Boolean, nullable=False, server_default=text("false")),
    Column("claimed_by", StorableText),
    _time("lease_until", nullable=True),
    Column("progress", StorableJson),
    Column("last_error", StorableJson),
    Column("traceparent", Text),
    Column("webhook_id", UUID),
    _time("created_at", "now()"),
    _time("started_at", nullable=True),
    _time("finished_at", nullable=True),
    # The transaction that gave the job its state (`daira.changes`). Progress does not change it.
    Column("changed", TransactionNumber, server_default=text("pg_current_xact_id()")),
    # True while the job waits for a recognition slot.
    Column("recognition", Boolean, nullable=False, server_default=text("false")),
    Column("worked", Interval, nullable=False, server_default=text("'0'")),
    PrimaryKeyConstraint("tenant_id", "id", name="jobs_pkey"),
    _named("jobs"),
    _belongs_to("tenants", "tenant_id", name="jobs_tenant_fkey"),
    _belongs_to("documents", "tenant_id", "document_id", name="jobs_document_fkey"),
    Index(
        "jobs_dedup",
        "tenant_id",
        "kind",
        "dedup_key",
        unique=True,
        postgresql_where=text("dedup_key is not null and state in ('queued', 'claimed')"),
    ),
    Index("jobs_ring", "tenant_id", "ring_after", postgresql_where=text("state = 'queued' and ring_after is not null")),
    Index(
        "jobs_recognition",
        "tenant_id",
        "ring_after",
        postgresql_where=text("state = 'queued' and ring_after is not null and recognition"),
    ),
    Index(
        "jobs_live",
        "state",
        "tenant_id",
        postgresql_where=text("state in ('queued', 'claimed') and kind is not null"),
    ),
    # Only for the backlog: no other query says `kind > ''` (`daira.backlog`).
    Index(
        "jobs_waiting",
        "kind",
        "run_after",
        "tenant_id",
        postgresql_where=text("state = 'queued' and kind > ''"),
    ),
    Index("jobs_of_document", "tenant_id", "document_id", postgresql_where=text("document_id is not null")),
    Index("jobs_changed", "tenant_id", "changed", postgresql_where=text("changed is not null")),
    Index("jobs_without_document", "tenant_id", "webhook_id", "id", postgresql_where=text("document_id is null")),
)

job_attempts = Table(
    "job_attempts",
    metadata,
    Column("tenant_id", Text, nullable=False),
    Column("job_id", UUID, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("worker", StorableText, nullable=False),
    _time("started_at"),
    _time("finished_at", "now()"),
    Column("outcome", Text, nullable=False),
    Column("error", StorableJson),
    PrimaryKeyConstraint("tenant_id", "job_id", "attempt", name="job_attempts_pkey"),
    _named("job_attempts"),
    _belongs_to("jobs", "tenant_id", "job_id", name="job_attempts_job_fkey"),
)

results = Table(
    "results",
    metadata,
    Column("tenant_id", Text, nullable=False),
    Column("job_id", UUID, nullable=False),
    Column("data", StorableJson, nullable=False),
    _time("created_at", "now()"),
    PrimaryKeyConstraint("tenant_id", "job_id", name="results_pkey"),
    _named("results"),
    _belongs_to("jobs", "tenant_id", "job_id", name="results_job_fkey"),
)

webhooks = Table(
    "webhooks",
    metadata,
    Column("tenant_id", Text, nullable=False),
    Column("id", UUID, nullable=False),
    Column("url", StorableText, nullable=False),
    Column("events", ARRAY(Text), nullable=False),
    Column("description", StorableText, nullable=False, server_default=text("''")),
    Column("secret", Text, nullable=False),
    Column("previous_secret", Text),
    _time("previous_until", nullable=True),
    _time("created_at", "now()"),
    _time("healthy_at", "now()"),
    _time("disabled_at", nullable=True),
    Column("disabled_reason", StorableText),
    PrimaryKeyConstraint("tenant_id", "id", name="webhooks_pkey"),
    _named("webhooks"),
    _belongs_to("tenants", "tenant_id", name="webhooks_tenant_fkey"),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("tenant_id", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("document_id", UUID),
    Column("resource_id", UUID),
    Column("made", Boolean),
    _time("created_at", "now()"),
    _time("expires_at", "now() + interval '24 hours'"),
    PrimaryKeyConstraint("tenant_id", "key", name="idempotency_keys_pkey"),
    _named("idempotency_keys"),
    _belongs_to("tenants", "tenant_id", name="idempotency_keys_tenant_fkey"),
    _belongs_to("documents", "tenant_id", "document_id", name="idempotency_keys_document_fkey"),
    Index("idempotency_keys_document", "tenant_id", "document_id"),
    Index("idempotency_keys_expiry", "tenant_id", "expires_at"),
)

usage = Table(
    "usage",
    metadata,
    Column("tenant_id", Text, nullable=False),
    Column("id", UUID, nullable=False),
    Column("day", Date, nullable=False, server_default=text("(now() at time zone 'utc')::date")),
    Column("documents", BigInteger, nullable=False),
    Column("pages", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant_id", "id", name="usage_pkey"),
    _named("usage"),
    _belongs_to("tenants", "tenant_id", name="usage_tenant_fkey"),
    Index("usage_days", "tenant_id", "day"),
)

doorbells = Table(
    "doorbells",
    metadata,
    Column("lane", Text, nullable=False),
    Column("tenant_id", Text, nullable=False),
    Column("job_id", UUID, nullable=False),
    _time("due_at", "now()"),
    Column("turn", BigInteger),
    PrimaryKeyConstraint("lane", "tenant_id", "job_id", name="doorbells_pkey"),
    Index("doorbells_turn", "lane", "turn", postgresql_where=text("turn is not null")),
    Index("doorbells_of_tenant", "lane", "tenant_id", "turn", postgresql_where=text("turn is not null")),
    Index("doorbells_due", "lane", "due_at", postgresql_where=text("turn is null")),
    prefixes=["UNLOGGED"],
)
