"""Secrets, each in the line that it usually stands in, and the ways in which outputs write such a line."""

import base64
import html
import json
import quopri
from collections.abc import Callable
from random import Random
from typing import NamedTuple

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_HEX = "0123456789abcdef"


class Secret(NamedTuple):
    """A line with a secret in it."""

    name: str
    before: str
    secret: str
    behind: str = ""


class Hidden(NamedTuple):
    """A payload that has a line with a secret, and how it writes the secret."""

    payload: bytes
    written: str
    media_type: str | None = None


def _random(name: str, count: int, letters: str = _LETTERS) -> str:
    """Letters with digits among the first of them."""
    made = "".join(Random(name).choices(letters, k=count))
    return f"{made[:2]}7{made[3:5]}4{made[6:]}"


def _secrets() -> list[Secret]:
    r = _random
    key = "\n".join(r(f"pem{n}", 64, f"{_LETTERS}+/") for n in range(6))
    pem = f"-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----"
    jwt = ".".join((f"eyJ{r('a', 33)}", f"eyJ{r('b', 60)}", r("c", 43)))
    return [
        Secret("github", "token ", f"ghp_{r('1', 36)}"),
        Secret("github-server", "using ", f"ghs_{r('2', 36)}", " now"),
        Secret("gitlab", "GL: ", f"glpat-{r('3', 20)}"),
        Secret("slack", "bot=", f"xoxb-{r('4', 12, '0123456789')}-{r('5', 12, '0123456789')}-{r('6', 24)}"),
        Secret("aws-id", "id ", "AKIA" + _random("7", 16, "ABCDEFGHIJKLMNOP234567").replace("7", "6").upper()),
        Secret("aws-secret", "AWS_SECRET_ACCESS_KEY=", f"{r('8', 18)}/{r('9', 12)}+{r('10', 8)}"),
        Secret("aws-session", "aws_session_token = ", r("11", 120)),
        Secret("anthropic", "ANTHROPIC_API_KEY=", f"sk-ant-api03-{r('12', 93)}AA"),
        Secret("openai", "key: ", f"sk-proj-{r('13', 60)}"),
        Secret("xai", "export XAI=", f"xai-{r('14', 80)}"),
        Secret("groq", "GROQ: ", f"gsk_{r('15', 52)}"),
        Secret("openrouter", "curl -H key:", f"sk-or-v1-{r('16', 64, _HEX)}"),
        Secret("deepseek", "DS=", f"sk-{r('17', 32, _HEX)}"),
        Secret("mistral", "MISTRAL_API_KEY=", r("18", 32)),
        Secret("tavily", "use ", f"tvly-dev-{r('19', 32)}"),
        Secret(
            "huggingface",
            "HF_TOKEN=",
            f"hf_{Random(20).choice('ab') * 2}{''.join(Random(20).choices(_LETTERS[:52], k=32))}",
        ),
        Secret("stripe", "stripe ", f"sk_live_{r('21', 24)}"),
        Secret("npm", "//registry/:_authToken=", f"npm_{r('22', 36)}"),
        Secret("pypi", "password: ", f"pypi-AgEIcHlwaS5vcmc{r('23', 70)}"),
        Secret("sendgrid", "SG ", f"SG.{r('24', 66)}"),
        Secret("google", "maps ", f"AIza{r('25', 35)}"),
        Secret("own-key", "COATCHECK_API_KEY=", f"ck_live_{r('26', 11)}_{r('27', 49)}"),
        Secret("pgpassword", "PGPASSWORD=", f"{r('28', 9)}!x"),
        Secret("db-password", "DB_PASSWORD=", r("29", 14)),
        Secret("sql", "Server=db;User ID=sa;Password=", f"{r('30', 12)}#", ";Encrypt=true"),
        Secret("azure", "AccountName=a;AccountKey=", f"{r('31', 86)}==", ";EndpointSuffix=core.windows.net"),
        Secret("kubernetes", "  password: ", r("32", 12)),
        Secret("yaml", "api_key: ", r("33", 40)),
        Secret("json", '"client_secret": "', r("34", 32), '",'),
        Secret("toml", 'token = "', r("35", 40), '"'),
        Secret("code", 'const apiToken: string = "', r("36", 32), '";'),
        Secret("option", "mysql --password ", r("37", 12), " -h db"),
        Secret("bearer", "Authorization: Bearer ", r("38", 40)),
        Secret("basic", "authorization: basic ", base64.b64encode(f"me:{r('39', 20)}".encode()).decode()),
        Secret("header", "X-Api-Key: ", r("40", 32)),
        Secret("url-password", "postgresql://app:", r("41", 14), "@db:5432/x"),
        Secret("url-token", "GET /v1/x?access_token=", r("42", 32), "&page=2"),
        Secret("jwt", "got ", jwt, " back"),
        Secret("private-key", "", pem),
        Secret("secret-base", "SECRET_KEY_BASE=", r("43", 64, _HEX)),
    ]


SECRETS = _secrets()
_LINES = [f"step {n} of the build went well and took {n} seconds" for n in range(30)]
_COLOUR, _PLAIN = "\x1b[01;31m\x1b[K", "\x1b[m\x1b[K"


def _text(line: str) -> str:
    return "\n".join([*_LINES[:15], line, *_LINES[15:], ""])


def _inside(mark: str) -> Callable[[Secret], Hidden]:
    """The mark, whole, in three places of the secret."""

    def write(s: Secret) -> Hidden:
        third = len(s.secret) // 3
        parts = s.secret[:3], s.secret[3:third], s.secret[third : 2 * third], s.secret[2 * third :]
        return Hidden(_text(s.before + mark.join(parts) + s.behind).encode(), s.secret)

    return write


def _around(before: str, behind: str) -> Callable[[Secret], Hidden]:
    return lambda s: Hidden(_text(f"{s.before}{before}{s.secret}{behind}{s.behind}").encode(), s.secret)


def _each(form: Callable[[str], str]) -> Callable[[Secret], Hidden]:
    """Each character of the secret in a form of its own."""

    def write(s: Secret) -> Hidden:
        written = "".join(char if char == "\n" else form(char) for char in s.secret)
        return Hidden(_text(s.before + written + s.behind).encode(), written)

    return write


def _line(form: Callable[[str], str]) -> Callable[[Secret], Hidden]:
    return lambda s: Hidden(_text(form(f"{s.before}{s.secret}{s.behind}")).encode(), s.secret)


def _whole(form: Callable[[str], bytes], media_type: str | None = None) -> Callable[[Secret], Hidden]:
    return lambda s: Hidden(form(_text(f"{s.before}{s.secret}{s.behind}")), s.secret, media_type)


def _grep(s: Secret) -> Hidden:
    at = len(s.secret) // 2
    line = f"{s.before}{_COLOUR}{s.secret[:at]}{_PLAIN}{s.secret[at:]}{s.behind}"
    return Hidden(_text(f"\x1b[35m\x1b[Kenv\x1b[m\x1b[K\x1b[36m\x1b[K:\x1b[m\x1b[K{line}").encode(), s.secret)


def _words(s: Secret) -> Hidden:
    at = len(s.secret) // 2
    line = f"{s.before}{s.secret[:at]}[-{s.secret[at]}-]{{+{s.secret[at]}+}}{s.secret[at + 1 :]}{s.behind}"
    return Hidden(_text(line).encode(), s.secret)


def _progress(s: Secret) -> Hidden:
    frames = "\r".join(
        [*(f"fetching {n} %" for n in range(0, 90, 30)), f"{s.before}{s.secret}{s.behind}", "done 100 %"]
    )
    return Hidden(_text(frames).encode(), s.secret)


def _mail(s: Secret) -> Hidden:
    body = base64.encodebytes(_text(f"{s.before}{s.secret}{s.behind}").encode()).decode()
    head = "From: a@example.com\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n\n"
    plain = _text(f"{s.before}{s.secret}{s.behind}")
    at = plain.index(s.secret) // 3 * 3
    written = base64.b64encode(plain.encode()[at + 3 : at + len(s.secret) - 3]).decode()
    return Hidden((head + body).encode(), written)


def _base64(s: Secret) -> Hidden:
    run = base64.b64encode(f"{s.before}{s.secret}{s.behind} and more of it".encode()).decode()
    return Hidden(_text(f"payload: {run}").encode(), run)


def _quoted(s: Secret) -> Hidden:
    body = quopri.encodestring(_text(f"{s.before}{s.secret}{s.behind} {'é' * 30}").encode()).decode()
    return Hidden(f"Content-Transfer-Encoding: quoted-printable\n\n{body}".encode(), s.secret)


def _records(s: Secret) -> Hidden:
    rows = [json.dumps({"level": "info", "n": n, "msg": line}) for n, line in enumerate(_LINES)]
    rows.insert(9, json.dumps({"level": "warn", "n": 99, "msg": f"{s.before}{s.secret}{s.behind}"}))
    return Hidden("\n".join(rows).encode(), json.dumps(s.secret)[1:-1])


WAYS: dict[str, Callable[[Secret], Hidden]] = {
    "as it is": _around("", ""),
    "in colour": _around("\x1b[32m", "\x1b[0m"),
    "grep --color": _grep,
    "colour inside": _inside("\x1b[1m"),
    "character set inside": _inside("\x1b(B"),
    "8-bit control inside": _inside("\x9b0m"),
    "caret notation": _inside("^[[0m"),
    "a title inside": _inside("\x1b]0;build\x07"),
    "hyperlink": _around("\x1b]8;;https://example.com/x\x1b\\", "\x1b]8;;\x1b\\"),
    "hyperlink inside": _inside("\x1b]8;;https://example.com/x\x07"),
    "bold in a man page": _each(lambda char: f"{char}\b{char}"),
    "underlined in a man page": _each(lambda char: f"_\b{char}"),
    "typed over": _inside("xyz\b\b\b"),
    "progress": _progress,
    "zero-width": _inside("\u200b"),
    "joiners and marks": _inside("\u2060\u200e\ufeff"),
    "soft hyphen": _inside("\u00ad"),
    "git diff --word-diff": _words,
    "highlighted in a page": _inside("<em></em>"),
    "diff": _line(lambda line: "\n".join(f"+{part}" for part in line.split("\n"))),
    "table": _line(lambda line: "| 7 | " + line.replace("\n", " ") + " | ok |"),
    "JSON lines": _records,
    "JSON": _whole(lambda text: json.dumps({"exit_code": 0, "stdout": text}).encode()),
    "JSON in JSON": _whole(lambda text: json.dumps({"a": json.dumps({"b": json.dumps({"c": text})})}).encode()),
    "JSON with colours": _whole(lambda text: json.dumps({"out": text.replace("7", "\x1b[1m7")}).encode()),
    "JSON escapes": _each(lambda char: f"\\u{ord(char):04x}"),
    "HTML entities": _each(lambda char: f"&#{ord(char)};"),
    "page source": _line(html.escape),
    "percent-encoded": _each(lambda char: f"%{ord(char):02X}"),
    "quoted-printable": _quoted,
    "Base64": _base64,
    "mail in Base64": _mail,
    "UTF-16 with a mark": _whole(lambda text: text.encode("utf-16")),
    "UTF-16 without a mark": _whole(lambda text: text.encode("utf-16-be")),
    "UTF-32": _whole(lambda text: text.encode("utf-32")),
    "environ": lambda s: Hidden(f"HOME=/root\0{s.before}{s.secret}{s.behind}\0PATH=/usr/bin\0".encode(), s.secret),
}
