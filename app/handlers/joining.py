"""Values from the parts of a document become one that fits the caller's schema, or the job fails and says where."""

from collections.abc import Sequence
from dataclasses import replace

from jsonschema.exceptions import ValidationError

from app.domain.merging import Found, Merged, escaped, merged
from app.handlers.asking import Unanswerable
from app.handlers.fitting import Fitting, TooMuchWorkError, frozen, place
from app.handlers.schema_parts import AnySchema, Schema


def joined(found: Sequence[Found], schema: Schema) -> Merged:
    fitting = Fitting(schema)
    values = merged(found, same=frozen)
    sets = [_pointer(fault) for fault in _faults(values, fitting) if fault.validator == "uniqueItems"]
    if sets:
        values = merged(found, sets=sets, same=frozen)
    if values.data is None and (blanks := _blanks(fitting, schema)):
        values = replace(values, data=blanks[0])
    for fault in _faults(values, fitting):
        if fault.validator == "required":
            _fill(fault, fitting)
    if faults := _faults(values, fitting):
        raise Unanswerable(
            "llm_invalid_output",
            f"what was found in the document's {len(found)} parts does not fit the schema at {place(faults[0])[:300]}",
        )
    return values


def _faults(values: Merged, fitting: Fitting) -> list[ValidationError]:
    try:
        return list(fitting.faults(values.data))
    except TooMuchWorkError:
        raise Unanswerable("llm_invalid_output", "the values take too long to be checked against the schema") from None


def _fill(fault: ValidationError, fitting: Fitting) -> None:
    """Nothing was found of what is required: said so, where the schema has a way to say it."""
    for name in fault.validator_value:
        if name not in fault.instance:
            blanks = _blanks(fitting, fault.schema.get("properties", {}).get(name, True))
            if blanks:
                fault.instance[name] = blanks[0]


def _blanks(fitting: Fitting, schema: AnySchema) -> list[object]:
    """What says that there is nothing, as far as the schema has it so."""
    blanks: tuple[object, ...] = (None, [], {})
    return [blank for blank in blanks if fitting.accepts(blank, schema)]


def _pointer(fault: ValidationError) -> str:
    return "".join(f"/{escaped(str(step))}" for step in fault.absolute_path)
