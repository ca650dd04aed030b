"""The rules of deploy/alerts.yaml, run by Prometheus' own tool on the series of a service that has just started.

Each rule is silent as long as nothing happens, and fires at the first event. What the series are called, and which
labels they have, comes from the service.
"""

import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from support.promtool import promtool
from support.service import serving
from support.used_servers import used

ALERTS = Path(__file__).parents[2] / "deploy" / "alerts.yaml"
RULES: dict[str, str] = {
    rule["alert"]: rule["expr"] for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]
}
BEFORE = 10
"""Minutes for which nothing happens."""
LAST = 60


class Event(NamedTuple):
    """What makes a rule fire: which series change, how, and minutes after which it must have fired."""

    series: str
    """A regular expression on the whole series."""
    values: str
    """From the event on, in promtool's notation."""
    minutes: int


EVENTS = {
    "CoatcheckAway": Event("up|coatcheck_build_info", f"0x{LAST}", 3),
    "CoatcheckStorageSilent": Event("coatcheck_blobs_silent", f"1x{LAST}", 3),
    "CoatcheckDegraded": Event("coatcheck_degraded", f"1x{LAST}", 3),
    "CoatcheckCatalogDamaged": Event("coatcheck_catalog_damaged", f"1x{LAST}", 1),
    "CoatcheckFallbackFilling": Event("coatcheck_fallback_bytes", f"{40 * 1024**2}x{LAST}", 2),
    "CoatcheckBytesDamaged": Event('coatcheck_problems_total.*code="integrity".*', f"1x{LAST}", 1),
    "CoatcheckBugs": Event('coatcheck_problems_total.*code="internal".*', f"1x{LAST}", 1),
    "CoatcheckRefusing": Event("coatcheck_reads_refused_total", f"1+1x{LAST}", 6),
    "CoatcheckExpiryBehind": Event("coatcheck_overdue_seconds", f"1000x{LAST}", 11),
    "CoatcheckUpkeepFailing": Event(
        'coatcheck_job_runs_total.*result="failed",task="maintenance".*', f"1+1x{LAST}", 25
    ),
    "CoatcheckDeletionsPaused": Event("coatcheck_deletions_paused", f"1x{LAST}", 2),
    "CoatcheckMetricsStale": Event("coatcheck_backlog_age_seconds", f"400x{LAST}", 6),
    "CoatcheckLoopLate": Event(
        r'coatcheck_event_loop_lag_seconds_(bucket.*le="(1.0|5.0|\+Inf)"|count).*', f"1+10x{LAST}", 16
    ),
}


@pytest.fixture(scope="module")
def checker() -> str:
    found = promtool()
    if found is None:
        used("alerts: without promtool, of which there is none here")
        pytest.skip("no promtool; `make promtool` gets one")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    used(f"alerts: {version.partition(' (')[0].replace(', version', '')}")
    return str(found)


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """Every series of a service that has just started, as PromQL writes it, and `up`."""
    with serving(tmp_path_factory.mktemp("alerts") / "data") as service:
        text = service.client.get("/metrics").text
    series = {"up": 1.0}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            series[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return series


def run(checker: str, folder: Path, tests: list[dict[str, Any]]) -> subprocess.CompletedProcess[str]:
    document = {"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": tests}
    (folder / "tests.yaml").write_text(yaml.safe_dump(document))
    return subprocess.run(
        [checker, "test", "rules", folder / "tests.yaml"], capture_output=True, text=True, check=False, timeout=120
    )


def expecting(
    alert: str, scraped: dict[str, float], target: str, *, fires: bool, before: str | None = None
) -> dict[str, Any]:
    """A test of promtool: the series that a rule asks for, constant until the event, and whether the rule fires.

    `target` are the labels that Prometheus adds; `before` replaces the values before the event.
    """
    event = EVENTS[alert]
    asked = set(re.findall(r"\bcoatcheck_\w+|\bup\b", RULES[alert]))
    inputs: list[dict[str, str]] = []
    for series, value in scraped.items():
        name = series.partition("{")[0]
        if name not in asked:
            continue
        changes = re.fullmatch(event.series, series) or re.fullmatch(event.series, name)
        constant = before or f"{value:g}x{BEFORE - 1}"
        gone = f"_x{LAST}" if name == "coatcheck_build_info" else event.values
        values = f"{constant} {gone}" if changes and fires else f"{value:g}x{BEFORE + LAST}"
        labels = ",".join(filter(None, (series.partition("{")[2].rstrip("}"), target)))
        inputs.append({"series": f"{name}{{{labels}}}", "values": values})
    assert inputs
    at = BEFORE + event.minutes
    firing = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})'
    some = [{"labels": "{}", "value": 1}]
    none: list[Any] = []
    return {
        "interval": "1m",
        "name": alert,
        "input_series": inputs,
        "promql_expr_test": [
            {"expr": firing, "eval_time": f"{BEFORE - 1}m", "exp_samples": none},
            {"expr": firing, "eval_time": f"{at}m", "exp_samples": some if fires and before is None else none},
        ],
    }


def test_every_rule_has_an_event() -> None:
    assert EVENTS.keys() == RULES.keys()


def test_prometheus_understands_the_rules(checker: str) -> None:
    done = subprocess.run([checker, "check", "rules", ALERTS], capture_output=True, text=True, check=False)
    assert (done.returncode, f"{len(RULES)} rules found" in done.stdout) == (0, True), done.stdout + done.stderr


@pytest.mark.parametrize("target", ['instance="a:1",job="other"', 'instance="a:1"'], ids=["any job", "no job"])
@pytest.mark.parametrize("alert", RULES)
def test_a_rule_fires_at_its_first_event_and_not_without_one(
    checker: str, scraped: dict[str, float], tmp_path: Path, alert: str, target: str
) -> None:
    tests = [expecting(alert, scraped, target, fires=fires) for fires in (True, False)]
    done = run(checker, tmp_path, tests)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", ["CoatcheckBytesDamaged", "CoatcheckBugs"])
def test_the_first_event_of_a_series_that_did_not_exist_would_have_been_missed(
    checker: str, scraped: dict[str, float], tmp_path: Path, alert: str
) -> None:
    absent = expecting(alert, scraped, 'instance="a:1"', fires=True, before=f"_x{BEFORE - 1}")
    done = run(checker, tmp_path, [absent])
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_expectation_is_noticed(checker: str, scraped: dict[str, float], tmp_path: Path) -> None:
    silent = expecting("CoatcheckBugs", scraped, 'instance="a:1"', fires=False)
    silent["promql_expr_test"][1]["exp_samples"] = [{"labels": "{}", "value": 1}]
    assert run(checker, tmp_path, [silent]).returncode != 0
