"""Metrics as a service tells them, and those that the API promises, with their labels."""

import httpx
from prometheus_client.parser import text_string_to_metric_families

CONTRACT = {
    "daira_jobs_due": {"kind"},
    "daira_jobs_scheduled": {"kind"},
    "daira_jobs_running": {"kind"},
    "daira_jobs_stuck": {"kind"},
    "daira_oldest_due_seconds": {"kind"},
    "daira_jobs_finished_total": {"kind", "outcome"},
    "daira_job_seconds_count": {"kind"},
    "daira_pickup_seconds_count": {"kind"},
    "daira_claims_total": {"outcome"},
    "daira_fenced_writes_total": set[str](),
    "daira_doorbells_total": {"event"},
    "daira_sweep_rung_total": set[str](),
    "daira_loop_last_success_seconds": {"loop"},
    "daira_scout_missed_total": set[str](),
    "daira_http_request_seconds_count": {"route", "method", "status"},
    "daira_llm_tokens_total": {"direction"},
}


def told_by(url: str) -> dict[str, set[str]]:
    """The labels of each sample that the service tells of, by name."""
    answer = httpx.get(f"{url}/metrics", trust_env=False, timeout=30)
    return {
        sample.name: set(sample.labels) - {"le"}
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
