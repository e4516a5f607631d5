"""One SQS queue: its client, its URL, its creation if it does not exist, and the errors that only SQS has."""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from botocore.config import Config
from botocore.exceptions import ClientError

from app.adapters.aws.client import FORBIDDEN, aws_reachable, code_of, new_client
from app.adapters.sqs.batches import RefusedEntry, SqsEntry, in_batches
from app.domain.errors import Unavailable

MISSING_QUEUE_CODES = frozenset({"AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"})
"""One error, in the older and in the newer protocol of SQS."""

INVALID_REQUEST_CODES = frozenset({"InvalidParameterValue", "InvalidParameterValueException"})
"""Error codes for an entry of a batch; some local servers give them for the whole request."""


def is_missing(error: ClientError) -> bool:
    return code_of(error) in MISSING_QUEUE_CODES


def is_invalid(error: BaseException | None) -> bool:
    """Return True if the request's content is at fault, rather than the connection or the credentials."""
    return isinstance(error, ClientError) and code_of(error) in INVALID_REQUEST_CODES


def refusal(error: ClientError) -> str | None:
    # Rights are named after the single operation: there is no sqs:SendMessageBatch.
    code, operation = code_of(error), error.operation_name.removesuffix("Batch")
    if code in MISSING_QUEUE_CODES:
        return "it does not exist; create it, or allow sqs:CreateQueue"
    if code in FORBIDDEN and operation == "CreateQueue":
        return "it does not exist, and these credentials may not create it; create it, or allow sqs:CreateQueue"
    if code in FORBIDDEN:
        return f"these credentials may not use it so; allow sqs:{operation} on it"
    return None


CONNECTIONS = 50
"""Abandoned polls hold their connections for some seconds; rings must not wait for them."""


class SqsQueue:
    def __init__(self, name: str, *, endpoint_url: str | None, region: str | None, longest_poll: int) -> None:
        self.name = name
        self._endpoint_url = endpoint_url
        self._region = region
        self._config = Config(
            connect_timeout=5,
            read_timeout=longest_poll + 10,
            max_pool_connections=CONNECTIONS,
            retries={"mode": "standard", "total_max_attempts": 3},
        )
        self._stack = AsyncExitStack()
        self._client: Any = None
        self._url = ""

    async def open(self) -> None:
        with self._reachable():
            made = new_client("sqs", endpoint_url=self._endpoint_url, region=self._region, config=self._config)
            self._client = await self._stack.enter_async_context(made)
        await self.find()

    async def close(self) -> None:
        await self._stack.aclose()

    async def find(self) -> None:
        """Find the queue's URL, creating the queue if it does not exist. Raises Unavailable."""
        with self._reachable():
            try:
                answer = await self._client.get_queue_url(QueueName=self.name)
            except ClientError as error:
                if not is_missing(error):
                    raise
                # Without attributes, so that it does not conflict with another process that creates it at the same
                # time.
                answer = await self._client.create_queue(QueueName=self.name)
        if not answer.get("QueueUrl"):
            raise Unavailable(f"the queue {self.name}: the server at its endpoint is not SQS")
        self._url = answer["QueueUrl"]

    async def call(self, operation: str, **arguments: object) -> Mapping[str, Any]:
        """Send one request. If the queue was lost meanwhile, it is created again first. Raises Unavailable."""
        if not self._url:
            await self.find()
        with self._reachable():
            try:
                return await self._request(operation, arguments)
            except ClientError as error:
                if not is_missing(error):
                    raise
            await self.find()
            return await self._request(operation, arguments)

    async def in_batches(self, operation: str, entries: Sequence[SqsEntry]) -> list[RefusedEntry]:
        """Send the entries and return those not done. Raises Unavailable, also if some may have been done."""
        return await in_batches(lambda batch: self._batch(operation, batch), entries)

    async def _batch(self, operation: str, batch: Sequence[SqsEntry]) -> Mapping[str, Any]:
        try:
            return await self.call(operation, Entries=batch)
        except Unavailable as error:
            if not is_invalid(error.__cause__):
                raise
            # SQS reports on each entry; some local servers refuse the whole request because of one.
            return {"Failed": [{"Id": entry["Id"], "Code": min(INVALID_REQUEST_CODES)} for entry in batch]}

    async def _request(self, operation: str, arguments: Mapping[str, object]) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = await getattr(self._client, operation)(QueueUrl=self._url, **arguments)
        return answer

    def _reachable(self) -> aws_reachable:
        return aws_reachable(f"the queue {self.name}", service="SQS", endpoint_url=self._endpoint_url, refusal=refusal)
