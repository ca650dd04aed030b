"""The rule set: all of it is used or listed, and each rule finds what its own expression describes."""

import hashlib
import json
from pathlib import Path
from random import Random

import pytest

from coatcheck.adapters.redaction_rules import SHA256, VERSION, Masks, rules_text
from coatcheck.core.redact.mask import Mask
from coatcheck.core.redact.rules import DEFAULT_OFF
from redact import planted_secrets

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def mask() -> Mask:
    """With every rule that there is."""
    return Masks(",".join(DEFAULT_OFF))()


def test_the_shipped_file_is_the_one_that_is_pinned_and_named_in_the_notice() -> None:
    assert hashlib.sha256(rules_text().encode()).hexdigest() == SHA256
    notice = (ROOT / "NOTICE").read_text()
    assert f"gitleaks {VERSION}" in notice
    assert "Copyright (c) 2019 Zachary Rice" in notice


def test_every_rule_of_the_set_is_used_or_listed_with_a_reason() -> None:
    rules = Masks().rules()
    used, left = set(rules.names), {each.rule for each in rules.left_out}
    assert planted_secrets.every() - used - left == set()
    assert {rule.name for rule in rules.rules if rule.name in DEFAULT_OFF} == set()
    assert all(each.why for each in rules.left_out)
    assert len(rules.names) < 8**3  # three of eight signs name a rule in a filler


def test_a_rule_that_nobody_knows_is_refused_by_its_name() -> None:
    with pytest.raises(ValueError, match="no-such-rule"):
        Masks("generic-api-key,-no-such-rule")


def test_rules_can_be_switched_on_and_off() -> None:
    names = Masks("generic-api-key,-jwt").rules().names
    assert "generic-api-key" in names
    assert "jwt" not in names


@pytest.mark.parametrize("rule", planted_secrets.names())
def test_a_secret_that_a_rule_describes_is_masked_wherever_it_stands(rule: str, mask: Mask) -> None:
    random = Random(rule)
    for form in ("{}", "see {} there", "\n{}\n", "<code>{}</code>", "({})", "u={}&v=1"):
        made = planted_secrets.plant(rule, random)
        shown = mask.fill_secrets(form.replace("{}", made.text).encode("latin-1")).decode("latin-1")
        assert _core(made.secret) not in shown, form
    made = planted_secrets.plant(rule, random)
    inside = mask.fill_secrets(json.dumps({"log": f"before\n{made.text}\nafter"}).encode())
    assert json.dumps(_core(made.secret))[1:-1].encode() not in inside


def test_each_of_two_commands_in_one_line_of_json_loses_its_password(mask: Mask) -> None:
    commands = ["curl https://a.example -u ann:Qx7wLp02", "curl --user 'bob:Zt5vKm91'"]
    for body in (json.dumps(commands), json.dumps({"body": json.dumps(commands)}), json.dumps(dict.fromkeys(commands))):
        shown = mask.fill_secrets(body.encode()).decode()
        assert "Qx7wLp02" not in shown, body
        assert "Zt5vKm91" not in shown, body


def test_escapes_and_control_characters_in_a_password_are_no_failure(mask: Mask) -> None:
    controls = "\x1b\x01\x02\x03\x04\x05\x06\x01\x02\x03\x04"
    assert "ssw0rd9Xq" not in mask.text(f'curl -u "admin:pa{controls}ssw0rd9Xq" https://x.example/')


def _core(secret: str) -> str:
    return secret.strip("\"'")[:24]
