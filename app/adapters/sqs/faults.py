"""What SQS alone refuses, and what to do about it."""

from botocore.exceptions import ClientError

from app.adapters.aws.faults import FORBIDDEN, code_of

MISSING = frozenset({"AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"})
"""The same error in the older and in the newer protocol of SQS."""

INVALID = frozenset({"InvalidParameterValue", "InvalidParameterValueException"})
"""Of a batch's entry, and from some local servers of the whole request."""


def is_missing(error: ClientError) -> bool:
    return code_of(error) in MISSING


def is_invalid(error: BaseException | None) -> bool:
    """What was sent is at fault, not the way or the right to send it."""
    return isinstance(error, ClientError) and code_of(error) in INVALID


def refusal(error: ClientError) -> str | None:
    # Rights have the name of the single operation: there is no sqs:SendMessageBatch.
    code, operation = code_of(error), error.operation_name.removesuffix("Batch")
    if code in MISSING:
        return "it does not exist; create it, or allow sqs:CreateQueue"
    if code in FORBIDDEN and operation == "CreateQueue":
        return "it does not exist, and these credentials may not create it; create it, or allow sqs:CreateQueue"
    if code in FORBIDDEN:
        return f"these credentials may not use it so; allow sqs:{operation} on it"
    return None
