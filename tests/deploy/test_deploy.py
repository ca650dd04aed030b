"""What deploy/ says is true of the code: settings, ports, files, times, users. No engine is needed to know that."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from coatcheck.cli import COMMANDS
from coatcheck.cli.serve import GRACE_SECONDS, LAST_SECONDS
from coatcheck.settings import PREFIX, Settings, load

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PAGES = sorted(p for p in DEPLOY.iterdir() if p.is_file())
SETTINGS = {PREFIX + name.upper() for name in Settings.__struct_fields__}
PORT = Settings().port
DRAIN = GRACE_SECONDS + LAST_SECONDS
USER = 10001


def compose() -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return parsed


def kubernetes(kind: str) -> dict[str, Any]:
    parsed: list[dict[str, Any]] = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
    (found,) = (one for one in parsed if one["kind"] == kind)
    return found


def pods() -> dict[str, dict[str, Any]]:
    return {kind: kubernetes(kind)["spec"]["template"]["spec"] for kind in ("Job", "Deployment")}


def unit() -> list[tuple[str, str]]:
    lines = (DEPLOY / "coatcheck.service").read_text().splitlines()
    return [
        (name, value) for name, _, value in (line.partition("=") for line in lines) if re.fullmatch(r"[A-Za-z]+", name)
    ]


def instructions() -> list[tuple[str, str]]:
    """The Containerfile's instructions, with continued lines joined."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Containerfile").read_text(), flags=re.MULTILINE)
    text = re.sub(r"\\\n\s*", "", text)
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in text.splitlines() if line)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_setting_that_is_named_is_one(page: Path) -> None:
    named = {name.removesuffix("_FILE") for name in re.findall(rf"\b{PREFIX}[A-Z_]*[A-Z]", page.read_text())}
    assert named <= SETTINGS, named - SETTINGS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_registry_of_packages_and_no_secret_is_named(page: Path) -> None:
    text = page.read_text().lower()
    for host in ("pypi.org", "pythonhosted", "artifactory", "index-url"):
        assert host not in text
    for name in ("POSTGRES_PASSWORD", "OBJECTS_ACCESS_KEY", "OBJECTS_SECRET_KEY"):
        assert not re.search(rf"^{name}=\S", page.read_text(), re.MULTILINE)


# ---------------------------------------------------------------------------------------------------- image


def test_the_image_copies_only_what_there_is_and_what_its_ignore_file_lets_through() -> None:
    rules = (DEPLOY / "Containerfile.dockerignore").read_text().split()
    allowed = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    assert "*" in rules
    copied: set[str] = set()
    for word, rest in instructions():
        if word == "COPY" and "--from=" not in rest:
            copied |= set(rest.split()[:-1])
    assert {name for name in copied if not (ROOT / name).exists()} == set()
    assert copied == allowed


def test_the_image_runs_as_a_numbered_user_without_a_shell_and_gets_its_signals() -> None:
    words = dict(instructions())
    assert words["USER"] == f"{USER}:{USER}"
    for word in ("ENTRYPOINT", "CMD", "VOLUME"):
        assert isinstance(json.loads(words[word]), list), f"{word} must not go through a shell"
    assert json.loads(words["ENTRYPOINT"]) == ["/opt/coatcheck/bin/coatcheck"]
    assert json.loads(words["CMD"]) == ["serve"]
    assert words["STOPSIGNAL"] == "SIGTERM"
    probe = json.loads(words["HEALTHCHECK"].partition("CMD ")[2])
    assert probe == ["/opt/coatcheck/bin/python", "/opt/coatcheck/healthcheck.py"]
    assert words["EXPOSE"] == str(PORT)
    order = [word for word, _ in instructions()]
    assert "RUN" not in order[order.index("USER") :]


def test_every_installation_in_the_image_checks_hashes_or_is_offline() -> None:
    runs = " && ".join(rest for word, rest in instructions() if word == "RUN").split(" && ")
    installs = [run for run in runs if "pip install" in run or "pip wheel" in run]
    assert len(installs) == 5
    for run in installs:
        assert any(word in run for word in ("--require-hashes", "--offline", "--no-index")), run


def _lock(*roots: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, DEPLOY / "runtime_lock.py", ROOT / "requirements.lock", *roots],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.count("==") <= done.stdout.count("--hash=sha256:")
    return {_canonical(name) for name in re.findall(r"^([A-Za-z0-9._-]+)==", done.stdout, re.MULTILINE)}


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _required(root: str) -> set[str]:
    """What an installed package needs on this machine, by its own word."""
    found: set[str] = set()
    waiting = {root}
    while waiting:
        name = waiting.pop()
        for text in metadata.requires(name) or ():
            need = Requirement(text)
            if (need.marker is None or need.marker.evaluate({"extra": ""})) and _canonical(need.name) not in found:
                found.add(_canonical(need.name))
                waiting.add(_canonical(need.name))
    return found


def test_the_image_installs_what_the_service_needs_and_no_tool_of_development() -> None:
    runtime = _lock()
    assert _required("coatcheck") - {"coatcheck-client"} <= runtime  # which is built from the tree, as the service is
    assert runtime >= {"mcp", "pypdf", "python-calamine", "opentelemetry-sdk"}  # every extra
    assert runtime & {"pytest", "ruff", "basedpyright", "moto", "hypothesis", "hatchling", "testcontainers"} == set()
    assert _lock("hatchling") >= {"hatchling"} | _required("hatchling")
    assert "pytest" not in _lock("hatchling")


def test_the_image_has_the_extras_that_its_settings_and_payloads_need() -> None:
    (run,) = (rest for word, rest in instructions() if word == "RUN" and "> runtime.lock" in rest)
    roots = run.partition(" > runtime.lock")[0].rpartition("requirements.lock ")[2]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    needed = {_canonical(Requirement(text).name) for extra in ("telemetry", "documents") for text in extras[extra]}
    assert set(roots.split()) == needed | {"coatcheck"}
    assert _lock(*roots.split()) >= needed | _lock()


def test_every_alert_leads_to_a_section_of_the_runbook() -> None:
    (group,) = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]:
        path, _, section = rule["annotations"]["runbook_url"].partition("#")
        headings = re.findall(r"^## (.*)$", (ROOT / path).read_text(), re.MULTILINE)
        sections = {heading.lower().replace(" ", "-").replace(":", "") for heading in headings}
        assert section in sections, rule["alert"]


def test_the_part_of_a_lock_is_refused_when_a_root_is_not_in_it() -> None:
    done = subprocess.run(
        [sys.executable, DEPLOY / "runtime_lock.py", ROOT / "requirements.lock", "no-such-package"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "no-such-package" in done.stderr


# -------------------------------------------------------------------------------------------------- compose


def test_the_service_starts_only_after_the_migration_has_ended_well_and_the_stores_are_healthy() -> None:
    services = compose()["services"]
    wants = {name: {k: v["condition"] for k, v in one.get("depends_on", {}).items()} for name, one in services.items()}
    assert wants["coatcheck"] == {"migrate": "service_completed_successfully", "objects": "service_healthy"}
    assert wants["migrate"] == {"postgres": "service_healthy"}
    for name in ("postgres", "objects"):
        assert services[name]["healthcheck"]["test"][0] == "CMD"
    assert [services[name]["command"] for name in ("coatcheck", "migrate")] == [["serve"], ["migrate"]]
    assert {"serve", "migrate"} <= set(COMMANDS)


@pytest.mark.parametrize("page", ["compose.yaml", "kubernetes.yaml"])
def test_the_pages_say_when_a_key_is_needed_and_how_the_first_is_made(page: str) -> None:
    text = (DEPLOY / page).read_text()
    assert "coatcheck key create me" in text
    assert "in this release" not in text


def test_compose_gives_the_service_few_rights_time_to_drain_and_no_port_beyond_loopback() -> None:
    document = compose()
    for name in ("coatcheck", "migrate"):
        one = document["services"][name]
        assert (one["read_only"], one["cap_drop"]) == (True, ["ALL"])
        assert one["security_opt"] == ["no-new-privileges:true"]
        assert one["build"]["dockerfile"] == "deploy/Containerfile"
    service = document["services"]["coatcheck"]
    assert service["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    assert int(service["stop_grace_period"].removesuffix("s")) > DRAIN
    assert [name for name, one in document["services"].items() if "ports" in one] == ["coatcheck"]
    named = {volume.split(":")[0] for one in document["services"].values() for volume in one.get("volumes", ())}
    assert named == set(document["volumes"])


def test_every_secret_that_compose_wants_is_in_the_example_and_missing_ones_stop_it() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    wanted = set(re.findall(r"\$\{([A-Z_]+)", text))
    assert wanted == set(re.findall(r"^([A-Z_]+)=$", (DEPLOY / "secrets.env.example").read_text(), re.MULTILINE))
    assert len(re.findall(r"\$\{[A-Z_]+:\?", text)) == len(re.findall(r"\$\{", text))


# ----------------------------------------------------------------------------------------------- Kubernetes


@pytest.mark.parametrize("kind", ["Job", "Deployment"])
def test_pods_run_as_the_images_user_with_nothing_to_spare(kind: str) -> None:
    pod = pods()[kind]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["runAsGroup"]) == (USER, USER)
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False, "the Service's name would set COATCHECK_PORT to an URL"
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
    assert container["args"][0] in COMMANDS


def test_the_job_and_the_replicas_are_the_same_image_with_the_same_settings() -> None:
    job, service = (pod["containers"][0] for pod in pods().values())
    for key in ("image", "env", "envFrom", "securityContext", "volumeMounts"):
        assert job[key] == service[key], key
    (source,) = service["envFrom"]
    assert source["configMapRef"]["name"] == kubernetes("ConfigMap")["metadata"]["name"]
    assert set(kubernetes("ConfigMap")["data"]) <= SETTINGS


def test_probes_ports_and_selectors_fit_each_other() -> None:
    deployment, service = kubernetes("Deployment")["spec"], kubernetes("Service")["spec"]
    (container,) = deployment["template"]["spec"]["containers"]
    assert container["ports"] == [{"name": "http", "containerPort": PORT}]
    assert kubernetes("ConfigMap")["data"]["COATCHECK_PORT"] == str(PORT)
    assert service["ports"] == [{"name": "http", "port": PORT, "targetPort": "http"}]
    paths = {name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")}
    # None of them asks for storage: an outage would take every replica out of the Service, or restart it, and with it
    # the cards that a replica still answers and the payloads that wait in its memory.
    assert paths == dict.fromkeys(("startup", "liveness", "readiness"), "/health/live")
    labels = deployment["template"]["metadata"]["labels"]
    for selector in (
        deployment["selector"]["matchLabels"],
        service["selector"],
        kubernetes("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        kubernetes("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
    ):
        assert selector == labels
    assert kubernetes("Job")["spec"]["template"]["metadata"]["labels"] != labels, "a job must get no requests"
    assert deployment["replicas"] > kubernetes("PodDisruptionBudget")["spec"]["minAvailable"]
    assert deployment["template"]["spec"]["terminationGracePeriodSeconds"] > DRAIN + 5


def admits(rule: dict[str, Any], namespace: dict[str, str], pod: dict[str, str]) -> bool:
    """Whether a rule of a NetworkPolicy in another namespace lets a pod in, by its labels and its namespace's."""

    def selects(selector: dict[str, Any] | None, labels: dict[str, str]) -> bool:
        return selector is not None and selector.get("matchLabels", {}).items() <= labels.items()

    return any(
        selects(peer.get("namespaceSelector"), namespace) and selects(peer.get("podSelector", {}), pod)
        for peer in rule["from"]
    )


def test_the_network_policy_admits_clients_of_any_namespace_the_ingress_controller_and_prometheus() -> None:
    (rule,) = kubernetes("NetworkPolicy")["spec"]["ingress"]
    assert rule["ports"] == [{"port": "http"}]
    name = "kubernetes.io/metadata.name"
    prometheus, controller = (
        {"app.kubernetes.io/name": "prometheus"},
        {"app.kubernetes.io/name": "ingress-nginx"},
    )
    assert admits(rule, {name: "agents"}, {"coatcheck-client": "yes"})
    assert admits(rule, {name: "monitoring"}, prometheus)
    assert admits(rule, {name: "ingress-nginx"}, controller)
    assert not admits(rule, {name: "agents"}, {"app": "anything"})
    assert not admits(rule, {name: "agents"}, prometheus)
    only_here = {"from": [{"podSelector": {"matchLabels": {"coatcheck-client": "yes"}}}]}
    assert not admits(only_here, {name: "agents"}, {"coatcheck-client": "yes"}), "a podSelector alone is of this place"


def test_prometheus_finds_the_metrics_where_they_are_and_needs_no_key() -> None:
    annotations = kubernetes("Deployment")["spec"]["template"]["metadata"]["annotations"]
    assert annotations == {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(PORT),
        "prometheus.io/path": "/metrics",
    }
    data = kubernetes("ConfigMap")["data"]
    assert load({f"{PREFIX}DATABASE_URL": "postgresql://host/name", **data}).metrics_open


SERVICE_BYTES = 1 << 30
"""What a replica itself may use. It is at 115 MiB when idle, 64 payloads of a few MiB each are ingested at once, and
64 MiB wait for storage."""


def test_a_replicas_memory_limit_has_room_for_the_service_and_all_of_its_extraction_processes() -> None:
    settings = load({f"{PREFIX}DATABASE_URL": "postgresql://host/name", **kubernetes("ConfigMap")["data"]})
    (container,) = pods()["Deployment"]["containers"]
    limit = int(container["resources"]["limits"]["memory"].removesuffix("Gi")) << 30
    assert limit >= SERVICE_BYTES + settings.workers * settings.extract_workers * settings.extract_memory
    assert limit < SERVICE_BYTES + Settings().extract_workers * Settings().extract_memory, "or the default would do"


# -------------------------------------------------------------------------------------------------- systemd


def test_the_unit_stops_the_service_as_it_wants_to_be_stopped_and_gives_it_a_directory() -> None:
    settings = dict(unit())
    assert settings["ExecStart"].split()[1:] == ["serve"]
    assert settings["Type"] == "notify"
    assert int(settings["TimeoutStopSec"]) > DRAIN
    assert settings["KillSignal"] == "SIGTERM"
    assert settings["Environment"] == f"COATCHECK_DATA=/var/lib/{settings['StateDirectory']}"
    assert settings["StateDirectoryMode"] == "0700"
    assert settings["User"] not in {"root", "0"}
    for word in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices", "RestrictNamespaces"):
        assert settings[word] == "yes"
    assert (settings["ProtectSystem"], settings["CapabilityBoundingSet"]) == ("strict", "")


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        sections = re.findall(r"^\[(\w+)\]$", (DEPLOY / "coatcheck.service").read_text(), re.MULTILINE)
        assert sections == ["Unit", "Service", "Install"], "there is no systemd here: only its sections were looked at"
        return
    there = (DEPLOY / "coatcheck.service").read_text().replace("/opt/coatcheck/bin/coatcheck", sys.executable)
    (tmp_path / "coatcheck.service").write_text(there)
    done = subprocess.run(
        [analyze, "verify", "--man=no", tmp_path / "coatcheck.service"], capture_output=True, text=True, check=False
    )
    assert "coatcheck.service:" not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr


def test_the_health_check_of_the_image_tells_a_service_that_answers_from_one_that_does_not(tmp_path: Path) -> None:
    from support.service import serving  # noqa: PLC0415 - only this test starts one

    def checked(port: str) -> int:
        command = [sys.executable, DEPLOY / "healthcheck.py"]
        return subprocess.run(command, env={"COATCHECK_PORT": port}, check=False, timeout=30).returncode

    with serving(tmp_path / "data") as service:
        port = service.url.rpartition(":")[2]
        assert checked(port) == 0
    assert checked(port) == 1
