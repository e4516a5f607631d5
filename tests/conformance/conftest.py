"""Failing assertions of the suites tell as much as those of a test module."""

import pytest

pytest.register_assert_rewrite(
    "tests.conformance.blobs_suite",
    "tests.conformance.database_suite",
    "tests.conformance.documents_suite",
    "tests.conformance.doorbell_suite",
    "tests.conformance.jobs_suite",
    "tests.conformance.keys_suite",
    "tests.conformance.leases_suite",
    "tests.conformance.sweeps_suite",
    "tests.support.rig",
)
