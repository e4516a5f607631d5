"""The benchmark of a noisy tenant in short: not timed, but what it measures is there, and nobody is refused."""

import pytest

from benchmarks.noisy_web import measured, others_document, prepared
from benchmarks.web.attacks import ATTACKS


@pytest.mark.timeout(300)
async def test_another_tenant_is_answered_during_attacks() -> None:
    async with prepared(pages=20, metadata=1_000) as web:
        with web.served() as (server, target):
            watched = await others_document(server, web.others_key)
            for name in ("listings", "phrases", "faulty", "polls"):
                # An answer other than a success is raised as `Refused`.
                found = await measured(server, watched, key=web.others_key, seconds=1, attack=(name, target))
                assert found.gets.count > 0
                assert found.ready.count > 0
                assert found.row()


def test_every_attack_has_clients() -> None:
    assert all(attack.loops > 0 for attack in ATTACKS.values())
