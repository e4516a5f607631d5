"""Outcomes of a job that asks a model: the result with its cost, or the outcome that a fault leads to."""

from collections.abc import Awaitable, Iterable, Mapping

from app.domain.errors import Unavailable
from app.domain.jobs import JobError
from app.domain.leases import ClaimedJob
from app.domain.llm.kept_answers import KeptAnswer
from app.domain.outcomes import Done, Fail, Outcome, Retry, Snooze
from app.domain.usage import UsageCounts, total_usage
from app.handlers.llm.conversation import NoUsableAnswer
from app.handlers.llm.document_text import TextNotReady
from app.ports.database import Tx
from app.ports.llm import LlmBusy, LlmContextExceeded, LlmFault, LlmRefused, LlmRejected, LlmTruncated

CODES: Mapping[type[LlmFault], str] = {
    LlmRefused: "llm_refused",
    LlmTruncated: "llm_invalid_output",
    LlmContextExceeded: "llm_context_exceeded",
    LlmRejected: "llm_not_configured",
}


async def outcome_of(job: ClaimedJob, work: Awaitable[Mapping[str, object]]) -> Outcome:
    """Return the outcome of the work. Other errors are left to the caller: DocumentFault, or a bug."""
    try:
        result = await work
    except TextNotReady as wait:
        return Snooze(wait.after, JobError(code="not_ready", message=str(wait)))
    except LlmBusy as busy:
        return Snooze(busy.after, JobError(code="unavailable", message=str(busy)))
    except Unavailable as away:
        return Retry(JobError(code="unavailable", message=str(away)))
    except NoUsableAnswer as end:
        return Fail(JobError(code=end.code, message=str(end)))
    except LlmFault as fault:
        return Fail(JobError(code=CODES[type(fault)], message=_message(fault)))

    async def apply(tx: Tx) -> None:
        await tx.jobs.save_result(job.lease.job_id, result)
        await tx.usage.add(_uncounted(result, await tx.answers.kept(job.lease.job_id)))
        await tx.answers.forget(job.lease.job_id)

    return Done(apply)


def _uncounted(result: Mapping[str, object], kept: Iterable[KeptAnswer]) -> UsageCounts:
    """Return the cost of the last answer, which was not stored. The others were counted when they were stored."""
    price = result.get("usage")
    assert isinstance(price, Mapping)
    counted = total_usage(each.used for each in kept)
    return UsageCounts(
        input_tokens=max(0, int(price["input_tokens"]) - counted.input_tokens),
        output_tokens=max(0, int(price["output_tokens"]) - counted.output_tokens),
    )


def _message(fault: LlmFault) -> str:
    if isinstance(fault, LlmRejected):
        return f"{fault}: check DAIRA_LLM_MODEL, DAIRA_LLM_API_KEY and DAIRA_LLM_BASE_URL"
    return str(fault)
