"""For each alert what Prometheus is told over time, when it must fire by it, and when it must be over."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    series: dict[str, str]
    """In promtool's notation: one value a minute."""
    fires: str
    over: str
    quiet: str = "1m"
    """When it must not fire yet."""


def _gauge(*, well: float, ill: float) -> str:
    """Well for 5 minutes, ill for 60, then well."""
    return f"{well}x5 {ill}x60 {well}x200"


def _rises(by: float) -> str:
    """A counter that rests, rises for ten minutes, and rests again."""
    return f"0x10 0+{by}x10 {by * 10}x200"


WHILE_ILL = {"fires": "30m", "over": "80m"}
REQUESTS = 'daira_http_request_seconds_count{{route="{}", method="GET", status="{}"}}'

CASES: dict[str, list[Case]] = {
    "DairaWorkLate": [
        Case(series={'daira_oldest_due_seconds{kind="ocr"}': _gauge(well=599, ill=601)}, **WHILE_ILL),
    ],
    "DairaJobsStuck": [Case(series={'daira_jobs_stuck{kind="ocr"}': _gauge(well=0, ill=1)}, **WHILE_ILL)],
    "DairaLoopSilent": [
        Case(series={f'daira_loop_last_success_seconds{{loop="{loop}"}}': _gauge(well=well, ill=ill)}, **WHILE_ILL)
        for loop, well, ill in [("sweep", 30, 181), ("consumer:ocr", 10, 181), ("full_pass", 1700, 1801)]
    ],
    "DairaCareSilent": [
        Case(series={f'daira_loop_last_success_seconds{{loop="{loop}"}}': _gauge(well=80_000, ill=90_000)}, **WHILE_ILL)
        for loop in ("purge", "upkeep")
    ],
    "DairaScoutBlind": [Case(series={"daira_scout_missed_total": _rises(1)}, fires="15m", over="90m")],
    "DairaLeasesLost": [Case(series={"daira_leases_lost_total": _rises(1)}, fires="20m", over="90m", quiet="12m")],
    "DairaWorkersLost": [
        Case(
            series={
                'daira_jobs_finished_total{kind="ocr", outcome="expired"}': _rises(1),
                'daira_jobs_finished_total{kind="selftest", outcome="expired"}': "0+1x200",
            },
            fires="15m",
            over="40m",
            quiet="9m",
        ),
        # Lost before the process that tells of it was scraped for the first time.
        Case(
            series={'daira_jobs_finished_total{kind="ocr", outcome="expired"}': "_x10 1x200"}, fires="12m", over="40m"
        ),
    ],
    "DairaDoorbellsFail": [
        Case(series={'daira_doorbells_total{event="failed"}': _rises(3)}, fires="18m", over="30m", quiet="12m")
    ],
    "DairaWebhooksDisabled": [Case(series={"daira_webhooks_disabled_total": _rises(1)}, fires="15m", over="90m")],
    "DairaDeliveriesFail": [
        Case(
            series={
                'daira_jobs_finished_total{kind="webhook", outcome="done"}': "0+1x200",
                'daira_jobs_finished_total{kind="webhook", outcome="retry"}': "0x20 0+3x60 180x120",
            },
            fires="60m",
            over="120m",
            quiet="20m",
        )
    ],
    "DairaErrors": [
        Case(
            series={
                REQUESTS.format("/v1/documents", 200): "0+97x200",
                REQUESTS.format("/v1/documents", 503): "0x10 0+3x30 90x160",
                REQUESTS.format("/readyz", 503): "0+90x200",
            },
            fires="30m",
            over="60m",
            quiet="10m",
        )
    ],
    "DairaDown": [
        Case(series={'up{job="daira"}': _gauge(well=1, ill=0)}, **WHILE_ILL),
        Case(series={'up{job="production/daira"}': _gauge(well=1, ill=0)}, **WHILE_ILL),
    ],
    "DairaUnseen": [
        Case(series={"daira_backlog_up": _gauge(well=1, ill=0)}, **WHILE_ILL),
        Case(series={"daira_backlog_up": "1x5 _x60 1x200"}, **WHILE_ILL),
    ],
    "DairaSnapshotHeld": [
        Case(series={"daira_oldest_snapshot_seconds": _gauge(well=60, ill=1801)}, **WHILE_ILL),
        Case(series={"daira_oldest_transactions": _gauge(well=4e6, ill=6e6)}, **WHILE_ILL),
    ],
    "DairaRowsDead": [
        Case(
            series={
                'daira_rows_dead{table="jobs"}': _gauge(well=90_000, ill=200_000),
                'daira_rows_live{table="jobs"}': "300000x300",
            },
            **WHILE_ILL,
        )
    ],
    "DairaPurgeFails": [
        Case(
            series={
                'daira_purge_expected_total{what="orphan"}': "0x10 100x3000",
                'daira_purged_total{what="orphan"}': "0x10 90x3000",
                'daira_purge_expected_total{what="document"}': "0x10 100x3000",
                'daira_purged_total{what="document"}': "0x10 100x3000",
            },
            fires="100m",
            over="1600m",
            quiet="30m",
        )
    ],
    "DairaClocksDiffer": [
        Case(series={f'{name}{{instance="a"}}': _gauge(well=well, ill=ill)}, **WHILE_ILL)
        for name in ("daira_clock_skew_seconds", "daira_blob_clock_skew_seconds")
        for well, ill in [(0.5, 61), (-0.5, -3_456_000)]
    ],
    "DairaGateClosed": [
        Case(series={'daira_gate_closed{gate="recognition", instance="a"}': _gauge(well=0, ill=1)}, **WHILE_ILL)
    ],
    "DairaLlmDown": [
        Case(
            series={
                'daira_llm_up{instance="a"}': _gauge(well=1, ill=0),
                'daira_llm_up{instance="b"}': "1x300",
                'daira_gate_closed{gate="llm", instance="a"}': _gauge(well=0, ill=1),
            },
            **WHILE_ILL,
        )
    ],
    "DairaJobsFail": [
        Case(
            series={
                'daira_jobs_finished_total{kind="summarize", outcome="done"}': "0+2x300",
                'daira_jobs_finished_total{kind="summarize", outcome="fail"}': "0x20 0+3x60 180x120",
                'daira_jobs_finished_total{kind="ocr", outcome="done"}': "0+20x300",
                'daira_jobs_finished_total{kind="ocr", outcome="fail"}': "0+1x300",
            },
            fires="60m",
            over="120m",
            quiet="19m",
        )
    ],
}
