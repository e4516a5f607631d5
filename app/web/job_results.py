"""Results of jobs, by kind, only for the OpenAPI document: an answer has a result as the handler wrote it."""

from typing import Any

from pydantic import BaseModel, Field, WithJsonSchema


class ResultWarning(BaseModel):
    """A warning about a result."""

    code: str
    detail: str
    pages: str | None = Field(None, description="Pages, such as `1-3,7`.")
    at: list[str] | None = Field(None, description="JSON pointers into the result's data.")


class Coverage(BaseModel):
    """The pages that were read for the result."""

    pages: str = Field(description="Pages, such as `1-3,7`.")
    read: int
    total: int


class Cost(BaseModel):
    """The cost of the result, over all tries and attempts."""

    calls: int
    input_tokens: int
    output_tokens: int


class CitationBody(BaseModel):
    """The place of a value. `quote` is the page's own text; `verified` is true if the value was found there."""

    page: int | None
    words: list[int] = Field(description="Indexes of the page's words, counted from 0.")
    quote: str | None
    verified: bool


class _Result(BaseModel):
    warnings: list[ResultWarning]
    coverage: Coverage
    usage: Cost


class SummarizeResult(_Result):
    """The result of a `summarize` job."""

    summary: str


class ExtractResult(_Result):
    """The result of an `extract` job. Every value of `data` has a citation, by its JSON pointer."""

    data: Any = Field(description="Values that are valid against the request's schema.")
    verified: bool = Field(description="True if every value was found on its page.")
    unverified: list[str] = Field(description="JSON pointers of the values that were not found.")
    citations: dict[str, CitationBody]
    alternatives: dict[str, Any] = Field(description="Other pages' values, by JSON pointer.")


class ClassifyResult(_Result):
    """The result of a `classify` job."""

    labels: list[str]
    reason: str
    verified: bool
    citations: list[CitationBody]


class AskResult(_Result):
    """The result of an `ask` job. `found` is false if the pages that were read have no answer."""

    answer: str | None
    found: bool
    verified: bool
    citations: list[CitationBody]


class DeliveryResult(BaseModel):
    """The result of a `webhook` job: the receiver's HTTP status."""

    status: int


AnyResult = DeliveryResult | SummarizeResult | ExtractResult | ClassifyResult | AskResult
RESULT = WithJsonSchema(
    {
        "anyOf": [
            *({"$ref": f"#/components/schemas/{kind.__name__}"} for kind in AnyResult.__args__),
            {"type": "null"},
        ],
        "description": "The job's result, by its kind; null until the job is done, and for kinds without a result.",
    }
)
