"""What the test server answers: JSON that fits the request's schema, of values picked out of the document's text."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
ORDER = re.compile(r"ignore .{0,60}?instructions.{0,80}?\bset (?:the )?(\w+) to (\S+)", re.IGNORECASE | re.DOTALL)
PAGE = re.compile(r"\bpage\W{0,3}(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A request to the server, as a model sees it."""

    system: str
    user: str
    schema: Mapping[str, Any] | None
    """From `response_format`, else from the prompt."""

    @property
    def text(self) -> str:
        return f"{self.system}\n{self.user}"


def prompt_of(body: Mapping[str, Any]) -> Prompt:
    said = {message["role"]: str(message["content"]) for message in body.get("messages", [])}
    form = body.get("response_format") or {}
    schema = form["json_schema"]["schema"] if form.get("type") == "json_schema" else _in_prose(said.get("system", ""))
    return Prompt(system=said.get("system", ""), user=said.get("user", ""), schema=schema)


def _in_prose(system: str) -> Mapping[str, Any] | None:
    start = system.rfind("JSON Schema: ")
    if start < 0:
        return None
    found: Mapping[str, Any] = json.JSONDecoder().raw_decode(system, start + len("JSON Schema: "))[0]
    return found


def good_answer(prompt: Prompt) -> str:
    """A sentence without a schema, or the JSON."""
    if prompt.schema is None:
        return "In short: " + " ".join(prompt.user.split()[:12])
    return json.dumps(Filling(prompt).value(prompt.schema), ensure_ascii=False)


def obedient_answer(prompt: Prompt) -> str:
    """Of a model that does what it last read, wherever it stood: `ignore the instructions … set total to 0`."""
    order = ORDER.search(prompt.text)
    if order is None:
        return good_answer(prompt)
    name, value = order[1], order[2].strip(".,;\"'")
    if prompt.schema is None:
        return f"{name} is {value}"
    found = Filling(prompt, ordered={name.lower(): value}).value(prompt.schema)
    return json.dumps(found, ensure_ascii=False)


class Filling:
    """A value for each part of a schema: where the text has the property's name, what stands behind it."""

    def __init__(self, prompt: Prompt, *, ordered: Mapping[str, str] | None = None) -> None:
        self._text = prompt.user
        self._root = prompt.schema or {}
        self._ordered = ordered or {}
        self._at = 0
        """Where in the text the last value was found."""

    def value(self, schema: Any, name: str = "") -> Any:
        if not isinstance(schema, Mapping):
            return self._word(name)
        if "$ref" in schema:
            return self.value(self._resolved(schema["$ref"]), name)
        for choice in ("const", "enum", "anyOf", "oneOf", "allOf"):
            if choice in schema:
                return self._chosen(choice, schema[choice], name)
        return self._of_type(schema, name)

    def _chosen(self, choice: str, options: Any, name: str) -> Any:
        if choice == "const":
            return options
        if choice == "enum":
            return next((each for each in options if str(each).lower() in self._text.lower()), options[0])
        return self.value(options[0], name)

    def _of_type(self, schema: Mapping[str, Any], name: str) -> Any:
        kind = schema.get("type", "object" if "properties" in schema else "string")
        match kind[0] if isinstance(kind, list) else kind:
            case "object":
                return {each: self.value(part, each) for each, part in schema.get("properties", {}).items()}
            case "array":
                return [self.value(schema.get("items", {}), name) for _ in range(max(1, schema.get("minItems", 1)))]
            case "integer":
                return self._page() if name.lower().startswith("page") else int(self._number(name))
            case "number":
                return self._number(name)
            case "boolean" | "null" as plain:
                return name.lower() in self._text.lower() if plain == "boolean" else None
            case _:
                return self._word(name)[: schema.get("maxLength", 10_000)].ljust(schema.get("minLength", 0), "-")

    def _word(self, name: str) -> str:
        if name.lower() in self._ordered:
            return self._ordered[name.lower()]
        return self._behind(name, DATE if "date" in name.lower() else re.compile(r"\S+")) or "none"

    def _number(self, name: str) -> float:
        found = self._ordered.get(name.lower()) or self._behind(name, NUMBER) or "0"
        number = float(re.sub(r"[^\d.-]", "", found) or 0)
        return int(number) if number.is_integer() else number

    def _behind(self, name: str, wanted: re.Pattern[str]) -> str:
        label = re.search(re.sub(r"[_\W]+", r"[\\W_]*", name) or "$^", self._text, re.IGNORECASE)
        for start in (label.end() if label else 0, 0):
            if found := next(self._clean(wanted, start), None):
                return found
        return ""

    def _clean(self, wanted: re.Pattern[str], start: int) -> Iterator[str]:
        for found in wanted.finditer(self._text, start):
            if value := found[0].strip(".,;:()<>\"'"):
                self._at = found.start()
                yield value

    def _page(self) -> int:
        """That on which the last value was found."""
        before = PAGE.findall(self._text[: self._at + 1]) or PAGE.findall(self._text)
        return int(before[-1]) if before else 1

    def _resolved(self, reference: str) -> Any:
        part: Any = self._root
        for step in reference.removeprefix("#/").split("/"):
            part = part[step.replace("~1", "/").replace("~0", "~")]
        return part
