"""Values behind the names of secrets are found in every form of assignment; what only refers to one is not."""

import site
from pathlib import Path
from random import Random

import pytest

from coatcheck.adapters.redaction_rules import Masks
from coatcheck.core.redact.mask import Mask

VALUE = "q7Zk2mXv9LpT4wRb8NcY1sHd6FgJ3aEu"
WORD = "s3cr3t99"


@pytest.fixture(scope="module")
def mask() -> Mask:
    return Masks()()


@pytest.mark.parametrize(
    "form",
    [
        "DB_PASSWORD={w}",
        "export PGPASSWORD='{w}'",
        "MYSQL_ROOT_PASSWD = {w}",
        "PASSWORD_2={w}",
        "  password: {w}",
        "smtp_pass: {w}",
        'password = "{w}"  # of the database',
        '{{"dbPassword":"{w}"}}',
        r"{{\"password\": \"{w}\"}}",
        r"{{\\\"password\\\":\\\"{w}\\\"}}",
        "&quot;password&quot;: &quot;{w}&quot;",
        '{{"env": ["A=1", "DB_PASSWORD={w}"]}}',
        '{{"name": "DB_PASSWORD", "value": "{w}"}}',
        "- name: DB_PASSWORD\n  value: {w}\n",
        "<password>{w}</password>",
        '<add key="DbPassword" value="{w}"/>',
        "| DB_PASSWORD | {w} |",
        "\u2502 DB_PASSWORD \u2502 {w} \u2502",
        "DB_PASSWORD\t{w}",
        '"DB_PASSWORD","{w}"',
        'DB_PASSWORD => "{w}"',
        "mysql --password {w} -h db",
        "mysql --password={w} -h db",
        "machine h login bob password {w}",
        "ALTER ROLE x WITH PASSWORD '{w}';",
        "CREATE USER a IDENTIFIED BY '{w}'",
        "user=bob&password={w}&x=1",
        "jdbc:postgresql://h/db?user=u&password={w}",
        "Server=db;Password={w};Encrypt=true",
        "spring.datasource.password={w}",
        "api_key: {v}",
        "MISTRAL_API_KEY={v}",
        'const token: string = "{v}";',
        'api_key: str = "{v}"',
        "AccountKey={v};EndpointSuffix=core",
        "SecretAccessKey: {v}",
        "client_secret={v}",
        "JWT_SECRET={v}",
        "ENCRYPTION_KEY={v}",
        "pre_shared_key: {v}",
    ],
)
def test_a_value_behind_the_name_of_a_secret_is_masked_and_nothing_else(mask: Mask, form: str) -> None:
    text = form.format(w=WORD, v=VALUE)
    shown = mask.reveal(mask.fill_secrets(text.encode()).decode())
    rule = "password" if "{w}" in form else "secret-value"
    assert shown == form.format(w=f"[redacted: {rule}]", v=f"[redacted: {rule}]")


def test_a_password_of_letters_is_masked_behind_a_variable(mask: Mask) -> None:
    assert (
        mask.reveal(mask.fill_secrets(b"PGPASSWORD=swordfish").decode()) == "PGPASSWORD=[redacted: password-variable]"
    )
    assert mask.fill_secrets(b"POSTGRES_PASSWORD=postgres") == b"POSTGRES_PASSWORD=postgres"


@pytest.mark.parametrize("what", ["KEY", "AUTH", "ID", "HASH", "key", "auth", "id", "hash", "public_key", "cache_key"])
def test_no_other_name_makes_a_value_secret(mask: Mask, what: str) -> None:
    for form in ("{}={}", "{}: {}", '"{}": "{}"'):
        assert mask.find(form.format(what, VALUE).encode()) == []


@pytest.mark.parametrize(
    "text",
    [
        "password: ${DB_PASSWORD:-postgres1}",
        "PASSWORD=$(cat /run/secrets/password2)",
        "TOKEN=`vault read -field=token1 secret/x1`",
        "password = os.environ['DB_PASSWORD_2']",
        "apiKey: process.env.OPENAI_API_KEY2",
        "secret_key = settings.SECRET_KEY_2",
        "token = await getToken2(session.id, options1)",
        "api_key: <your-api-key-123456>",
        "password=xxxxxxxx1 secret=****************1 token=null password: null",
        "password: {{ vault_db_password2 }}",
        "token: ${{ secrets.GITHUB_TOKEN2 }}",
        "password: !vault db2",
        "secret: /run/secrets/db_password_2/value",
        "token_file=./secrets/token1/current",
        "def f(password: str, token: Optional[str] = None, secret: SecretStr256): ...",
        "password: changeme1 password=test123 password = example1",
        "nextPageToken: 'CAUQAA7Zk2mXv9LpT4wRb8NcY1sHd6FgJ3aEu'",
        '"continuationToken": "q7Zk2mXv9LpT4wRb8NcY1sHd6FgJ3aEu"',
        '"ClientRequestToken": "f4c94ed7-238d-4c46-93db-48cd62ec33b7"',
        "max_tokens=4096, total_tokens: 12345678, token_count = 1234567890123456",
        "eos_token=q7Zk2mXv9LpT4wRb8NcY1sHd6FgJ3aEu",
        "arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db2-a1b2c3d4e5f6",
        "secretName: web-tls-7f9c8d6b5a4e3f2a",
        "- name: API_TOKEN\n  valueFrom:\n    secretKeyRef: {name: api-token-7f9c8d6b5a, key: token}",
        '# METHOD can be "trust", "md5", "password", "scram-sha-256", "gss"',
        "ii  passwd   1:4.13+dfsg1-1+deb12u1   amd64",
        "PASS: test_foo_1 PASS: TestFoo2 bypass: 3x4y5z6",
        "Ed25519PrivateKey | X25519PrivateKey, private_key, Ed25519PublicKey",
        "sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU",
        "password_hash_iterations: 260000 password-policy: min12-max64",
        'x-request-id: 0b3c9d7e-7f0a-4b1e-9c2d-1a2b3c4d5e6f etag: W/"33a64df551425fcc55e4d42a148795d9f25f89d4"',
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ7Zk2mXv9LpT4wRb8NcY1sHd6FgJ3aEuQ7Zk2mXv9Lp me@example.com",
        "authorization: headerMap.authorizationHeader,",
        "Authorization: bearer JSON_WEB_TOKEN_STRING.....",
        "// is a login without password allowed?",
        "re.compile(r'([^&;]*(?:password|token)[^=]*=)[^&;]+')",
        "actor_token: 'eyJhbGciOiJIUzI1NiIsInR5cCI6Ikp...'",
    ],
)
def test_what_refers_to_a_secret_or_is_none_stays(mask: Mask, text: str) -> None:
    assert mask.fill_secrets(text.encode()).decode() == text


def test_sources_of_installed_packages_are_not_masked(mask: Mask) -> None:
    files = sorted(Path(site.getsitepackages()[0]).rglob("*.py"))
    Random(7).shuffle(files)
    rules = {"password", "password-variable", "secret-value", "model-provider-key", "coatcheck-key"}
    masked = [
        (str(path), mask.names[each.rule])
        for path in files[:800]
        for each in mask.find(path.read_bytes())
        if mask.names[each.rule] in rules and "test" not in path.name
    ]
    assert len({path for path, _ in masked}) <= 1, masked
