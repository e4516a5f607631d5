"""`docs/reference.md`, drawn from the OpenAPI document: run `python -m tests.support.api_reference` after a change."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from app.asgi import create_app
from app.settings import Settings

PATH = Path(__file__).parents[2] / "docs" / "reference.md"
HEADER = """\
# API reference

Drawn from the OpenAPI document, which a running service has at `/openapi.json`, and to try out at `/docs`. Send the
key as `Authorization: Bearer daira_<tenant>_<secret>`. Bodies are JSON in snake_case, times RFC 3339 in UTC, ids
UUIDs. A refusal is `application/problem+json` with a `code` for programs ([what to do about which](how-to/errors.md));
every answer has `X-Request-ID`, and under `/v1` `RateLimit` and `RateLimit-Policy`.
"""
FORMATS = {"uuid": "id", "date-time": "time", "date": "day", "binary": "bytes"}
ORDER = ("get", "head", "post", "put", "patch", "delete")

Json = Mapping[str, Any]


def render() -> str:
    document = create_app(Settings(_env_file=None, role="web", database_url="postgresql://db/daira")).openapi()
    parts = [HEADER]
    for tag in document["tags"]:
        parts.append(f"## {tag['name'].capitalize()}\n\n{tag['description']}\n")
        parts += [_operation(*each) for each in _tagged(document, tag["name"])]
    parts.append("## Bodies\n\nWhat is answered and asked for, by name.\n")
    parts += [_schema(name, schema) for name, schema in sorted(document["components"]["schemas"].items())]
    return "\n".join(parts)


def _tagged(document: Json, tag: str) -> Iterator[tuple[str, str, Json]]:
    for path, methods in document["paths"].items():
        for method in sorted(methods, key=ORDER.index):
            if tag in methods[method]["tags"]:
                yield method.upper(), path, methods[method]


def _operation(method: str, path: str, operation: Json) -> str:
    scopes = [scope for needed in operation.get("security", ()) for scope in needed.get("key", ())]
    lines = [f"### {method} {path}", "", operation.get("description") or operation["summary"], ""]
    lines += [f"Needs the scope {' and '.join(f'`{scope}`' for scope in scopes)}.", ""] if scopes else []
    lines += _table("parameter | in | what", [_parameter(each) for each in operation.get("parameters", ())])
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        lines += [f"Body, `{media_type}`: {_type(content['schema'])}.", ""]
        lines += _table("field | type | what", _fields(content["schema"]))
    lines += _table("answer | what", [_answer(*each) for each in operation["responses"].items()])
    return "\n".join(lines)


def _parameter(parameter: Json) -> str:
    needed = "" if parameter.get("required") or parameter["in"] == "path" else ", optional"
    said = parameter.get("description") or parameter["schema"].get("description") or _type(parameter["schema"])
    return f"`{parameter['name']}` | {parameter['in']}{needed} | {said}"


def _answer(status: str, answer: Json) -> str:
    bodies = {_type(content["schema"]) for content in answer.get("content", {}).values() if content.get("schema")}
    told = "" if status >= "4" else "".join(f" {body}" for body in sorted(bodies - {"text", "any"}))
    return f"{status} | {answer['description']}{told}"


def _schema(name: str, schema: Json) -> str:
    lines = [f"### {name}", ""]
    lines += [schema["description"], ""] if schema.get("description") else []
    if "enum" in schema:
        lines += ["One of " + ", ".join(f"`{value}`" for value in schema["enum"]) + ".", ""]
    lines += _table("field | type | what", _fields(schema))
    return "\n".join(lines)


def _fields(schema: Json) -> list[str]:
    needed = set(schema.get("required", ()))
    return [
        f"`{name}` | {_type(field)}{'' if name in needed else ', optional'} | {field.get('description', '')}"
        for name, field in schema.get("properties", {}).items()
    ]


def _type(schema: Json) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    choices = schema.get("anyOf") or schema.get("oneOf")
    if choices:
        return " or ".join(dict.fromkeys(_type(each) for each in choices))
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return FORMATS.get(schema.get("format", ""), "text") if kind == "string" else kind


def _table(head: str, rows: list[str]) -> list[str]:
    if not rows:
        return []
    rule = "|".join("---" for _ in head.split("|"))
    flat = [" ".join(row.split()) for row in rows]
    return [f"| {head} |", f"|{rule}|", *(f"| {row} |" for row in flat), ""]


if __name__ == "__main__":
    PATH.write_text(render())
