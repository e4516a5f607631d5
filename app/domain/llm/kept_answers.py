"""A question of a job and what became of it, kept so that nobody asks (and pays) again."""

from dataclasses import dataclass

from app.domain.usage import UsageCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAnswer:
    question: str
    """Its digest: what is asked, of which text, for the how manieth time."""
    text: str | None
    """The usable answer; None: there was none."""
    fault: str | None = None
    """Why not, in a few words of ours."""
    input_tokens: int
    output_tokens: int

    @property
    def used(self) -> UsageCounts:
        return UsageCounts(input_tokens=self.input_tokens, output_tokens=self.output_tokens)
