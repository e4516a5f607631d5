"""Outcomes of a job that asks a model: the result with its cost, or the outcome that a fault leads to."""

from collections.abc import Awaitable, Iterable, Mapping

import structlog

from app.domain.jobs import JobError
from app.domain.leases import ClaimedJob
from app.domain.llm.kept_answers import KeptAnswer
from app.domain.outcomes import Done, Fail, Outcome, Snooze, Suspect, Yield
from app.domain.usage import UsageCounts, total_usage
from app.handlers.llm.conversation import NoUsableAnswer, SlotWanted
from app.handlers.llm.document_text import TextNotReady
from app.ports.database import Tx
from app.ports.llm import LlmBusy, LlmContextExceeded, LlmFault, LlmRefused, LlmRejected, LlmTruncated

log = structlog.get_logger()

ERRORS: Mapping[type[LlmFault], JobError] = {
    LlmRefused: JobError(code="llm_refused", message="the language model refuses to answer: use another wording"),
    LlmTruncated: JobError(code="llm_invalid_output", message="the language model's answer was cut off"),
    LlmContextExceeded: JobError(
        code="llm_context_exceeded", message="the question is too long for the language model: shorten the request"
    ),
    LlmRejected: JobError(
        code="llm_not_configured", message="the service's language model is not set up rightly: tell its operator"
    ),
}
"""The errors that tenants read. A fault's own text may name the operator's settings, and goes to the log."""

BUSY = JobError(code="unavailable", message="the language model is busy or out of order: the job waits for it")


async def outcome_of(job: ClaimedJob, work: Awaitable[Mapping[str, object]]) -> Outcome:
    """Return the outcome of the work. Other errors are left to the caller: DocumentFault, Unavailable, or a bug."""
    try:
        result = await work
    except SlotWanted:
        return Yield()
    except TextNotReady as wait:
        return Snooze(wait.after, JobError(code="not_ready", message=str(wait)))
    except LlmBusy as busy:
        log.info("llm_busy", reason=str(busy))
        return Snooze(busy.after, BUSY)
    except NoUsableAnswer as end:
        return Fail(JobError(code=end.code, message=str(end)))
    except LlmFault as fault:
        return _failure(fault)

    async def apply(tx: Tx) -> None:
        await tx.jobs.save_result(job.lease.job_id, result)
        await tx.usage.add(_uncounted(result, await tx.answers.kept(job.lease.job_id)))
        await tx.answers.forget(job.lease.job_id)

    return Done(apply)


def _failure(fault: LlmFault) -> Outcome:
    log.warning("llm_fault", reason=str(fault))
    failure = Fail(ERRORS[type(fault)])
    # The key, the account or the model's name may be wrong, and not the question.
    return Suspect(failure) if isinstance(fault, LlmRejected) else failure


def _uncounted(result: Mapping[str, object], kept: Iterable[KeptAnswer]) -> UsageCounts:
    """Return the cost of the last answer, which was not stored. The others were counted when they were stored."""
    price = result.get("usage")
    assert isinstance(price, Mapping)
    counted = total_usage(each.used for each in kept)
    return UsageCounts(
        input_tokens=max(0, int(price["input_tokens"]) - counted.input_tokens),
        output_tokens=max(0, int(price["output_tokens"]) - counted.output_tokens),
    )
