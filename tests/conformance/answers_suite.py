"""Answers: what an unfinished job was told, for the attempt that goes on with it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from app.domain.leases import Lease, Settlement
from app.domain.llm.kept_answers import KeptAnswer
from tests.support.rig import Rig, done, fail, new_answer, release

FIRST = new_answer(question="a:0", text='{"summary": "…"}')
USELESS = new_answer(question="b:0", text=None, fault="not JSON", output_tokens=0)


async def keep(rig: Rig, lease: Lease, kept: KeptAnswer) -> bool:
    async with rig.database.begin(lease.tenant_id) as tx:
        return await tx.answers.keep(lease, kept)


async def kept(rig: Rig, lease: Lease) -> list[KeptAnswer]:
    async with rig.database.begin(lease.tenant_id) as tx:
        return sorted(await tx.answers.kept(lease.job_id), key=lambda each: each.question)


async def started(rig: Rig) -> Lease:
    tenant = await rig.tenant()
    document = await rig.document(tenant)
    return await rig.lease(await rig.enqueue(tenant, document_id=document.id))


class AnswersSuite:
    async def test_the_next_attempt_finds_what_the_last_one_was_told(self, rig: Rig) -> None:
        lease = await started(rig)
        assert await keep(rig, lease, FIRST)
        assert await keep(rig, lease, USELESS)
        assert await rig.settle(release(lease))
        async with rig.database.begin(lease.tenant_id) as tx:
            job = await tx.jobs.get(lease.job_id)
        assert job is not None
        assert await kept(rig, await rig.lease(job)) == [FIRST, USELESS]

    async def test_a_second_answer_to_a_question_changes_nothing(self, rig: Rig) -> None:
        lease = await started(rig)
        assert await keep(rig, lease, FIRST)
        assert await keep(rig, lease, replace(FIRST, text="another", output_tokens=1))
        assert await kept(rig, lease) == [FIRST]

    async def test_what_no_store_can_hold_is_left_out(self, rig: Rig) -> None:
        lease = await started(rig)
        assert await keep(rig, lease, replace(FIRST, text="a\0b\ud800c", fault="\0"))
        assert await kept(rig, lease) == [replace(FIRST, text="abc", fault="")]

    @pytest.mark.threat(79)
    @pytest.mark.parametrize("ending", [done, fail, release])
    async def test_who_has_lost_the_lease_keeps_nothing(self, rig: Rig, ending: Callable[[Lease], Settlement]) -> None:
        lease = await started(rig)
        assert await rig.settle(ending(lease))
        assert not await keep(rig, lease, FIRST)
        assert await kept(rig, lease) == []

    async def test_answers_are_forgotten_with_the_result(self, rig: Rig) -> None:
        lease = await started(rig)
        assert await keep(rig, lease, FIRST)
        async with rig.database.begin(lease.tenant_id) as tx:
            await tx.answers.forget(lease.job_id)
        assert await kept(rig, lease) == []

    async def test_answers_of_another_job_stay(self, rig: Rig) -> None:
        lease = await started(rig)
        other = await rig.lease(await rig.enqueue(lease.tenant_id))
        assert await keep(rig, lease, FIRST)
        assert await keep(rig, other, USELESS)
        async with rig.database.begin(lease.tenant_id) as tx:
            await tx.answers.forget(lease.job_id)
        assert await kept(rig, other) == [USELESS]

    async def test_answers_go_with_their_document(self, rig: Rig) -> None:
        tenant = await rig.tenant()
        document = await rig.document(tenant)
        lease = await rig.lease(await rig.enqueue(tenant, document_id=document.id))
        assert await keep(rig, lease, FIRST)
        assert await rig.remove(document)
        assert not await keep(rig, lease, USELESS)
        assert await kept(rig, lease) == []

    async def test_another_tenant_sees_none(self, rig: Rig) -> None:
        lease = await started(rig)
        assert await keep(rig, lease, FIRST)
        other = await rig.tenant("other")
        assert await kept(rig, lease._replace(tenant_id=other)) == []
        assert not await keep(rig, lease._replace(tenant_id=other), USELESS)
