"""The outside contract, from the running code: what clients, operators and dashboards rely on, without any prose.

`python -P -m tests.support.outside_contract` writes it to tests/architecture/outside_contract.json; `--print` prints it
instead. Only entry points are named here, so code may move and internal classes may get other names.
"""

import asyncio
import contextlib
import importlib
import inspect
import io
import json
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import structlog
import typer
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from starlette.exceptions import HTTPException

from app import __main__ as program
from app.asgi import create_app
from app.settings import Settings
from tests.support.env_example import assignments, render
from tests.support.source_facts import Source

PATH = Path(__file__).parents[1] / "architecture" / "outside_contract.json"

PROSE = frozenset({"description", "summary", "example", "examples", "title"})
NAMES = frozenset({
    "callbacks", "content", "encoding", "headers", "links", "mapping", "parameters", "paths", "properties", "responses",
    "schemas", "securitySchemes", "scopes", "variables",
})  # fmt: skip
"""Keys of a JSON object whose own keys are names, and no keywords of OpenAPI or JSON Schema."""
VALUES = frozenset({"const", "default", "enum", "security"})

OF_THE_FRAMEWORK = (400, 401, 403, 404, 405, 408, 418)
"""Statuses that Starlette and FastAPI raise by themselves, and one that nobody does."""

IN_MEMORY = {"DAIRA_DATABASE_URL": "memory://", "DAIRA_QUEUE_URL": "memory://", "DAIRA_BLOB_URL": "memory://"}
QUIET = {"DAIRA_OCR": "null", "DAIRA_LOG_FORMAT": "json"}

PROBES: dict[str, tuple[list[str], dict[str, str]]] = {
    "help": (["--help"], {}),
    "no command": ([], {}),
    "unknown command": (["frobnicate"], {}),
    "unknown option": (["upload", "--frobnicate"], {}),
    "missing argument": (["upload"], {}),
    "option out of range": (["upload", "--parallel", "0", "a.pdf"], {}),
    "setting that is not valid": (["serve"], {"DAIRA_PORT": "none"}),
    "unknown setting": (["serve"], {"DAIRA_FROBNICATE": "1"}),
    "production refused": (["serve"], IN_MEMORY | {"DAIRA_ENV": "production"}),
    "faults in production": (["doctor"], IN_MEMORY | {"DAIRA_ENV": "production"}),
    "no faults in development": (["doctor"], IN_MEMORY),
    "no service found": (["jobs", "list"], {}),
    "address that is none": (["jobs", "list"], {"DAIRA_URL": "frobnicate", "DAIRA_API_KEY": "x"}),
    "missing addresses": (["db", "init"], {}),
    "selftest of one process": (["selftest"], IN_MEMORY),
}
"""Ways to start the program, by what is the matter: the arguments, and the environment."""


def contract() -> dict[str, Any]:
    """Every part by its name. Run in a process of its own: the program is started in it, and its logging set up."""
    with _clean_environment():
        source = Source()
        app = create_app(Settings(_env_file=None, role="web", database_url="postgresql://db.test/daira"))
        worker = create_app(Settings(_env_file=None, role="worker", database_url="postgresql://db.test/daira"))
        return {
            "openapi": without_prose(app.openapi()),
            "openapi_of_a_worker": without_prose(worker.openapi()),
            "commands": _commands(),
            "settings": _settings(),
            "environment": sorted(source.variables() - _names_of_settings()),
            "exit_codes": {"by_case": _exit_codes(), "all": sorted(source.exit_statuses())},
            "metrics": asyncio.run(_metrics()),
            "logs": {
                "events": _log_events(source),
                "bound": sorted(source.bound_fields()),
                "line": _log_line(),
            },
            "codes": {
                "problems": asyncio.run(_problems(app)),
                "written": sorted(source.error_codes()),
                "webhook_events": sorted(source.webhook_events()),
            },
        }


def without_prose(part: Any, *, named: bool = False) -> Any:
    """A part of an OpenAPI document without its texts; `named`: the keys are names, such as those of properties."""
    if isinstance(part, list):
        made = [without_prose(each) for each in part]
        if all(isinstance(each, str) for each in made):
            return sorted(made)
        by_name = all(isinstance(each, dict) and "name" in each for each in made)
        return sorted(made, key=lambda each: (each.get("in", ""), each["name"])) if by_name else made
    if not isinstance(part, dict):
        return part
    kept = {
        key: value if key in VALUES and not named else without_prose(value, named=not named and key in NAMES)
        for key, value in part.items()
        if named or key not in PROSE
    }
    if not named and "version" in part and "title" in part:
        kept["title"] = part["title"]  # generated clients are named for it
    for name, content in part.items():
        if name == "application/problem+json":
            kept[name]["codes"] = sorted(content.get("examples", ()))
    return kept


@contextlib.contextmanager
def _clean_environment() -> Iterator[None]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DAIRA_", "OTEL_"))}
    with (
        tempfile.TemporaryDirectory(prefix="daira-contract-") as folder,
        patch.dict(os.environ, kept | {"DAIRA_DATA_DIR": folder}, clear=True),
        contextlib.chdir(folder),
    ):
        yield


def _commands() -> dict[str, Any]:
    """Every command by its full name."""
    found: list[typer.Typer] = []
    with (
        patch.object(typer.Typer, "__call__", lambda self, **_: found.append(self)),
        patch.object(sys, "argv", ["daira", "--help"]),
    ):
        program.main()
    return dict(_tree(typer.main.get_command(found[0]), "daira"))


def _tree(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    positions = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option"]
    yield (
        name,
        {
            "arguments": [_parameter(each) for each in positions],
            "options": {" ".join(sorted(each.opts + each.secondary_opts)): _parameter(each) for each in options},
            "help_names": command.context_settings.get("help_option_names", []),
            "hidden": command.hidden,
            "deprecated": bool(command.deprecated),
        },
    )
    for each, sub in getattr(command, "commands", {}).items():
        yield from _tree(sub, f"{name} {each}")


def _parameter(parameter: Any) -> dict[str, Any]:
    kind = {key: value for key, value in vars(parameter.type).items() if isinstance(value, bool | int | float | tuple)}
    default = parameter.default() if callable(parameter.default) else parameter.default
    return {
        "type": {"name": parameter.type.name}
        | {key: list(v) if isinstance(v, tuple) else v for key, v in kind.items()},
        "default": default if isinstance(default, int | float | None) else str(default),
        "required": parameter.required,
        "nargs": parameter.nargs,
        "multiple": parameter.multiple,
        "envvar": parameter.envvar,
        "hidden": parameter.hidden,
        "flag": getattr(parameter, "is_flag", False),
        "count": getattr(parameter, "count", False),
    }


def _names_of_settings() -> set[str]:
    return set(assignments(render()))


def _settings() -> dict[str, Any]:
    """By the name of the variable: the schema, and the default as it would be written there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some defaults have no form in JSON
        schema = Settings.model_json_schema()
    defaults = assignments(render())
    prefix = Settings.model_config["env_prefix"]
    return {
        (name := f"{prefix}{field}".upper()): {"schema": _inlined(each, schema["$defs"]), "default": defaults[name]}
        for field, each in schema["properties"].items()
    }


def _inlined(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """Without texts, and without the names of classes."""
    if not isinstance(schema, dict):
        return [_inlined(each, definitions) for each in schema] if isinstance(schema, list) else schema
    if "$ref" in schema:
        return _inlined(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    return {key: _inlined(value, definitions) for key, value in schema.items() if key not in PROSE | {"default"}}


def _exit_codes() -> dict[str, int]:
    return {name: _exit_code(*probe) for name, probe in PROBES.items()}


def _exit_code(arguments: list[str], environment: dict[str, str]) -> int:
    silent = io.StringIO()
    with (
        patch.object(sys, "argv", ["daira", *arguments]),
        patch.dict(os.environ, QUIET | environment),
        contextlib.redirect_stdout(silent),
        contextlib.redirect_stderr(silent),
    ):
        try:
            program.main()
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


async def _metrics() -> dict[str, Any]:
    """Every metric by its name, and the series that a new process shows before anything has happened."""
    found: dict[str, Any] = {}
    register = CollectorRegistry.register

    def note(registry: CollectorRegistry, collector: Any) -> None:
        register(registry, collector)
        found[collector._name] = {
            "type": collector._type,
            "labels": list(collector._labelnames),
            "buckets": [str(bound) for bound in getattr(collector, "_upper_bounds", ())],
        }

    with patch.object(CollectorRegistry, "register", note), patch.dict(os.environ, IN_MEMORY | QUIET):
        app = create_app(Settings(_env_file=None))
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://daira.test") as client,
        ):
            await client.get("/healthz")
            text = (await client.get("/metrics")).text
    return {"metrics": found, "series": _series(text)}


def _series(text: str) -> list[str]:
    series = {
        sample.name + "".join(f" {name}={value}" for name, value in sorted(sample.labels.items()) if name != "le")
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_created")
    }
    return sorted(series)


def _log_events(source: Source) -> list[dict[str, Any]]:
    return [
        {"event": event, "level": level, "fields": list(fields)} for event, level, fields in sorted(source.log_events())
    ]


def _log_line() -> list[str]:
    """The fields of a line that uvicorn's entry point, app.main, has set up."""
    out = io.StringIO()
    with patch.dict(os.environ, IN_MEMORY | QUIET), contextlib.redirect_stderr(out):
        importlib.import_module("app.main")
        structlog.get_logger().error("probed", exc_info=ValueError())
    return sorted(json.loads(out.getvalue().splitlines()[-1]))


async def _problems(app: FastAPI) -> list[dict[str, Any]]:
    """How every error is answered, by the handlers that the application has."""
    rows = {
        json.dumps(row, sort_keys=True)
        for kind, handler in app.exception_handlers.items()
        if isinstance(kind, type)
        for error in _instances(kind)
        if (row := await _answer(app, handler, error)) is not None
    }
    return sorted((json.loads(row) for row in rows), key=lambda row: (row["status"], row["code"], row["headers"]))


def _instances(kind: type[Exception]) -> Iterator[Exception]:
    if issubclass(kind, HTTPException):
        yield from (HTTPException(status_code=status) for status in OF_THE_FRAMEWORK)
    elif issubclass(kind, RequestValidationError):
        yield RequestValidationError([{"loc": ("body", "a"), "msg": "wrong", "type": "wrong"}])
    elif kind is Exception:
        yield RuntimeError("unforeseen")
    elif "code" in vars(kind):
        yield from (_made(each) for each in _family(kind))


def _family(kind: type[Exception]) -> Iterator[type[Exception]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _family(each)


def _made(kind: type[Exception]) -> Exception:
    _, *wanted = inspect.signature(kind.__init__).parameters.values()
    given = [each for each in wanted if each.kind is each.POSITIONAL_OR_KEYWORD and each.default is each.empty]
    named = [each for each in wanted if each.kind is each.KEYWORD_ONLY and each.default is each.empty]
    texts = [each.name for each in given] or ["message"]
    return kind(*texts, **{each.name: timedelta(seconds=1) for each in named})


async def _answer(app: FastAPI, handler: Callable[..., Any], error: Exception) -> dict[str, Any] | None:
    """Nothing where the handler passes the error on, or answers without a problem."""
    scope = {"type": "http", "app": app, "method": "POST", "path": "/v1/nowhere", "root_path": "", "headers": []}
    request = Request(scope | {"query_string": b"", "state": {"request_id": "r"}})
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            answer = await handler(request, error)
        except type(error):
            return None
    if not re.fullmatch(r"application/[a-z+]*json", answer.headers.get("content-type", "")):
        return None
    body = json.loads(answer.body)
    return {
        "code": body["code"],
        "status": answer.status_code,
        "headers": sorted(set(answer.headers) - {"content-length"}),
        "fields": sorted(body),
    }


def main() -> None:
    text = json.dumps(contract(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if sys.argv[1:] == ["--print"]:
        sys.stdout.write(text)
    else:
        PATH.write_text(text)


if __name__ == "__main__":
    main()
