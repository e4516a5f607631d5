"""What an ended job answers, by its kind: for the OpenAPI document. It is told as a handler wrote it."""

from typing import Any

from pydantic import BaseModel, Field, WithJsonSchema


class ResultWarning(BaseModel):
    """What one should know of a result."""

    code: str
    detail: str
    pages: str | None = Field(None, description="As `1-3,7`.")
    at: list[str] | None = Field(None, description="JSON pointers into the result's data.")


class Coverage(BaseModel):
    """The pages that were read for it."""

    pages: str = Field(description="As `1-3,7`.")
    read: int
    total: int


class Cost(BaseModel):
    """What it has cost, over all tries and attempts."""

    calls: int
    input_tokens: int
    output_tokens: int


class CitationBody(BaseModel):
    """Where a value stands. `quote` is the page's own text; `verified`: the value was found there."""

    page: int | None
    words: list[int] = Field(description="Indexes, from 0, into the page's words.")
    quote: str | None
    verified: bool


class _Result(BaseModel):
    warnings: list[ResultWarning]
    coverage: Coverage
    usage: Cost


class SummarizeResult(_Result):
    """Of the kind `summarize`."""

    summary: str


class ExtractResult(_Result):
    """Of the kind `extract`. Every value of `data` has a citation, by its JSON pointer."""

    data: Any = Field(description="Valid against the schema that was asked with.")
    verified: bool = Field(description="Every value was found on its page.")
    unverified: list[str] = Field(description="JSON pointers.")
    citations: dict[str, CitationBody]
    alternatives: dict[str, Any] = Field(description="What other pages say, by JSON pointer.")


class ClassifyResult(_Result):
    """Of the kind `classify`."""

    labels: list[str]
    reason: str
    verified: bool
    citations: list[CitationBody]


class AskResult(_Result):
    """Of the kind `ask`. `found` is false where the pages that were read have no answer."""

    answer: str | None
    found: bool
    verified: bool
    citations: list[CitationBody]


class DeliveryResult(BaseModel):
    """Of the kind `webhook`: what the receiver answered."""

    status: int


AnyResult = DeliveryResult | SummarizeResult | ExtractResult | ClassifyResult | AskResult
RESULT = WithJsonSchema(
    {
        "anyOf": [
            *({"$ref": f"#/components/schemas/{kind.__name__}"} for kind in AnyResult.__args__),
            {"type": "null"},
        ],
        "description": "What it has come to, by its kind; null until it is done, and of kinds that have no answer.",
    }
)
