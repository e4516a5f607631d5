"""Answers of the language model that an unfinished job has received."""

from sqlalchemy import ColumnElement, and_, delete, select
from sqlalchemy.dialects.postgresql import insert

from app.adapters.postgres.clamped import ClampedConnection, holds
from app.adapters.postgres.tables import answers
from app.adapters.postgres.usage import PostgresUsage
from app.domain.ids import JobId
from app.domain.leases import Lease
from app.domain.llm.kept_answers import KeptAnswer


class PostgresAnswers:
    def __init__(self, clamped: ClampedConnection) -> None:
        self._clamped = clamped
        self._tenant_id = clamped.tenant_id

    async def keep(self, lease: Lease, kept: KeptAnswer) -> bool:
        if not await holds(self._clamped, lease):
            return False
        statement = insert(answers).values(
            tenant_id=self._tenant_id,
            job_id=lease.job_id,
            question=kept.question,
            text=kept.text,
            fault=kept.fault,
            input_tokens=kept.input_tokens,
            output_tokens=kept.output_tokens,
        )
        added = await self._clamped.execute(statement.on_conflict_do_nothing())
        if added.rowcount:
            await PostgresUsage(self._clamped).add(kept.used)
        return True

    async def kept(self, job_id: JobId) -> list[KeptAnswer]:
        rows = await self._clamped.execute(select(answers).where(self._of(job_id)))
        return [
            KeptAnswer(
                question=row.question,
                text=row.text,
                fault=row.fault,
                input_tokens=row.input_tokens,
                output_tokens=row.output_tokens,
            )
            for row in rows
        ]

    async def forget(self, job_id: JobId) -> None:
        await self._clamped.execute(delete(answers).where(self._of(job_id)))

    def _of(self, job_id: JobId) -> ColumnElement[bool]:
        return and_(answers.c.tenant_id == self._tenant_id, answers.c.job_id == job_id)
