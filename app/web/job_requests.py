"""Requests of each job kind: strict models with limits, checked before anything is stored."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from app.domain.errors import Invalid
from app.handlers.llm.schema_checks import SchemaFault, check_schema
from app.ports.reading import Mode
from app.services.uploads import JobRequest
from app.web.bodies import parse_json, whole
from app.web.errors import json_pointer, plain_message

LANGUAGES = r"^[a-z]{3}(_[a-z]+)?(\+[a-z]{3}(_[a-z]+)?)*$"
"""One or more installed models, as ISO 639-2 codes, with a script if the language has several."""

PAGES = r"^[1-9][0-9]{0,6}(-[1-9][0-9]{0,6})?(,[1-9][0-9]{0,6}(-[1-9][0-9]{0,6})?)*$"
"""Numbers and ranges of pages, counted from 1."""

LANGUAGE_NAME = r"^[A-Za-z]{2,20}([- ][A-Za-z]{2,20}){0,2}$"
"""A code or an English name: `de`, `pt-BR`, `Brazilian Portuguese`."""

MOST_JOBS = 20
SAYS_SOMETHING = r"^[^\x00]*[^\s\x00][^\x00]*$"
"""A text that is not blank and has no NUL, which the database can't store."""


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kind: str

    def to_domain(self) -> JobRequest:
        payload = self.model_dump(mode="json", by_alias=True, exclude={"kind"}, exclude_none=True)
        return JobRequest(kind=self.kind, payload=payload)


class OcrRequest(_Request):
    """A request to read the text of a document's pages."""

    kind: Literal["ocr"]
    language: Annotated[str, Field(max_length=40, pattern=LANGUAGES, examples=["eng+deu"])] | None = None
    mode: Mode = Mode.AUTO
    pages: Annotated[str, Field(max_length=200, pattern=PAGES, examples=["1-3,7"])] | None = None


class SummarizeRequest(_Request):
    """A request for a summary of the document."""

    kind: Literal["summarize"]
    max_words: Annotated[StrictInt, Field(ge=10, le=2_000, examples=[150]), BeforeValidator(whole)] | None = None
    language: (
        Annotated[
            StrictStr,
            Field(
                pattern=LANGUAGE_NAME,
                description="The summary's language. Default: the document's.",
                examples=["English"],
            ),
        ]
        | None
    ) = None


def _checked(schema: dict[str, Any]) -> dict[str, Any]:
    try:
        check_schema(schema)
    except SchemaFault as fault:
        raise PydanticCustomError("json_schema", "{reason}", {"reason": str(fault), "at": fault.pointer}) from None
    return schema


INVOICE = {
    "type": "object",
    "properties": {
        "number": {"type": "string"},
        "date": {"type": "string", "description": "YYYY-MM-DD"},
        "total": {"type": "number"},
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "price": {"type": "number"}},
                "required": ["name", "price"],
            },
        },
    },
    "required": ["total"],
}


class ExtractRequest(_Request):
    """A request for values in the form of a JSON Schema, each cited with the words of its page."""

    kind: Literal["extract"]
    json_schema: Annotated[
        dict[str, Any],
        AfterValidator(_checked),
        Field(
            alias="schema",
            description="JSON Schema, draft 2020-12, of up to 64 KiB. References must stay inside; patterns are RE2's.",
            examples=[INVOICE],
        ),
    ]
    instructions: (
        Annotated[
            StrictStr,
            Field(max_length=8_000, pattern=SAYS_SOMETHING, examples=["Amounts without VAT. Leave out deposits."]),
        ]
        | None
    ) = None


def _distinct(labels: list[str]) -> list[str]:
    if len({" ".join(label.split()).casefold() for label in labels}) < len(labels):
        raise ValueError("two labels are the same; case and spaces don't count")
    return labels


class ClassifyRequest(_Request):
    """A request to choose the document's label, or with `multiple` its labels."""

    kind: Literal["classify"]
    labels: Annotated[
        list[Annotated[StrictStr, Field(max_length=100, pattern=r"^[^\s\x00]([^\r\n\x00]*[^\s\x00])?$")]],
        AfterValidator(_distinct),
        Field(min_length=2, max_length=100, examples=[["invoice", "receipt", "contract", "other"]]),
    ]
    multiple: StrictBool = False


class AskRequest(_Request):
    """A question about the document."""

    kind: Literal["ask"]
    question: Annotated[
        StrictStr, Field(max_length=4_000, pattern=SAYS_SOMETHING, examples=["By when can the contract be terminated?"])
    ]


AnyJobRequest = Annotated[
    OcrRequest | SummarizeRequest | ExtractRequest | ClassifyRequest | AskRequest, Field(discriminator="kind")
]
JOB_REQUEST = TypeAdapter[AnyJobRequest](AnyJobRequest)
JOB_REQUESTS = TypeAdapter[list[AnyJobRequest]](Annotated[list[AnyJobRequest], Field(max_length=MOST_JOBS)])


KINDS: Sequence[type[_Request]] = [OcrRequest, SummarizeRequest, ExtractRequest, ClassifyRequest, AskRequest]
A_REQUEST: dict[str, Any] = {
    "oneOf": [{"$ref": f"#/components/schemas/{kind.__name__}"} for kind in KINDS],
    "discriminator": {
        "propertyName": "kind",
        "mapping": {
            kind.__name__.removesuffix("Request").lower(): f"#/components/schemas/{kind.__name__}" for kind in KINDS
        },
    },
}
JOB_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": A_REQUEST,
                "examples": {
                    "ocr": {"value": {"kind": "ocr", "language": "eng+deu"}},
                    "summarize": {"value": {"kind": "summarize", "max_words": 150}},
                    "extract": {"value": {"kind": "extract", "schema": INVOICE}},
                    "classify": {"value": {"kind": "classify", "labels": ["invoice", "receipt", "other"]}},
                    "ask": {"value": {"kind": "ask", "question": "By when can the contract be terminated?"}},
                },
            }
        },
    }
}


def parse_request(text: str) -> JobRequest:
    """Parse a job's request from a body. Raises Invalid, with a JSON pointer into the body."""
    try:
        return JOB_REQUEST.validate_python(_parsed(text)).to_domain()
    except ValidationError as error:
        raise _invalid(error.errors()[0], ()) from None


def parse_requests(text: str) -> list[JobRequest]:
    """Parse the requests of an upload's `jobs` field. Raises Invalid, with a JSON pointer into the form."""
    try:
        return [request.to_domain() for request in JOB_REQUESTS.validate_python(_parsed(text, "jobs"))]
    except ValidationError as error:
        raise _invalid(error.errors()[0], ("jobs",)) from None


def _parsed(text: str, *at: str) -> object:
    try:
        return parse_json(text)
    except ValueError as error:
        pointer = json_pointer(at)
        raise Invalid(f"{pointer if at else 'the body'} is not JSON: {error}", pointer=pointer) from None


def _invalid(fault: ErrorDetails, root: Sequence[str]) -> Invalid:
    location = list(fault["loc"])
    # Pydantic puts the kind that it chose between the place of the request and the place within it.
    depth = len(root)
    if len(location) > depth:
        del location[depth]
    if fault["type"] in {"union_tag_invalid", "union_tag_not_found"}:
        location.append("kind")
    context: Mapping[str, Any] = fault.get("ctx", {})
    pointer = json_pointer([*root, *location, *context.get("at", ())])
    return Invalid(f"{pointer}: {plain_message(fault['msg'])}", pointer=pointer)
