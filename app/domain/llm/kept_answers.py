"""A question of a job and its answer, stored so that no attempt asks (and pays) again."""

from dataclasses import dataclass

from app.domain.usage import UsageCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAnswer:
    question: str
    """The digest of the request and its text, with the number of the try."""
    text: str | None
    """The usable answer; None where there was none."""
    fault: str | None = None
    """The reason why the answer was not usable, in a few words of Daira's own."""
    input_tokens: int
    output_tokens: int

    @property
    def used(self) -> UsageCounts:
        return UsageCounts(input_tokens=self.input_tokens, output_tokens=self.output_tokens)
