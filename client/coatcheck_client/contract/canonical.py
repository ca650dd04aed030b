"""Gives all addresses of a page one spelling, which is only for comparing: it is never fetched, and never shown.

Rules, in this order:
1. A redirect of a search engine (`google.com/url?q=`, `duckduckgo.com/l/?uddg=`) or an address of an AMP cache is
   replaced by the address inside it; `//host/…` means https.
2. http becomes https. The host becomes lower case, in IDNA form, without a final dot. `www.` stays; the labels `m`,
   `mobile` and `amp` are removed (`en.m.wikipedia.org`), as long as two labels stay. Ports 80 and 443 are removed.
3. `.` and `..` are resolved. Escapes of unreserved characters are decoded, all other escapes become upper case, and
   characters outside ASCII are escaped. `/amp/` at the beginning is removed; so are `/amp`, `.amp`, `.amp.html` and
   `/index.html` at the end, and a final slash, except the root's.
4. Parameters that only say where a reader came from (TRACKING) are removed, and so is `amp`. The others are sorted by
   name; parameters of the same name keep their order. An empty query is removed.
5. The fragment is removed, unless it selects a page: `#!…` and `#/…`.

User names stay. Addresses with other schemes than http and https are left as they are.
"""

import re
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote_to_bytes, urlsplit

MAX_URL: Final = 8_192
"""Maximum characters of a URL; a longer one is ignored."""
_TRACKING: Final = """
    fbclid gclid gclsrc dclid gbraid wbraid gad_source gad_campaignid srsltid msclkid yclid ymclid ysclid twclid ttclid
    igshid igsh li_fat_id mc_cid mc_eid mkt_tok _hsenc _hsmi __hssc __hstc __hsfp hsctatracking vero_id vero_conv
    oly_anon_id oly_enc_id wickedid s_kwcid s_cid wt.mc_id wt_mc _openstat fb_action_ids fb_action_types fb_source
    fb_ref guccounter guce_referrer guce_referrer_sig ncid cmpid ito soc_src soc_trk spm scm sc_cid rb_clickid irclickid
    irgwc epik ved sca_esv _ga _gl ref_src ref_url cvid share_source sharer_sharetime vd_source
"""
TRACKING: Final = frozenset(_TRACKING.split())
"""Names of parameters, in lower case, that do not affect the page. `ref`, `source`, `id` and others may affect it."""
_PREFIXES: Final = ("utm_", "mtm_", "pk_", "piwik_", "matomo_", "hsa_", "at_custom", "stm_", "itm_")
"""Beginnings of further names of such parameters."""
_OF_HOST: Final = {"youtube.com": {"si", "pp", "feature"}, "youtu.be": {"si", "feature"}, "open.spotify.com": {"si"}}
"""Further names of such parameters, on these hosts and their subdomains only."""
_WRAPPED: Final = {
    "www.google.com/url": ("q", "url"),
    "duckduckgo.com/l/": ("uddg",),
    "html.duckduckgo.com/l/": ("uddg",),
}
"""Redirects of search engines, with the parameters that contain the address inside."""
_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]{0,20}:(?=[^\s])")
_NO_NAME: Final = re.compile(r"[\s\[\]/\\?#@]")
"""Characters that end a host name. A full-width character in a name may become one of them."""
_MOBILE: Final = frozenset({"m", "mobile", "amp"})
_LEAST_LABELS: Final = 2
"""Labels at the end of a host name that always stay."""
_AMP_PATH: Final = re.compile(r"(?:/amp/?|\.amp(?:\.html?)?)$|^/amp(?=/.)", re.IGNORECASE)
_INDEX: Final = re.compile(r"/index\.html?$", re.IGNORECASE)
_AMP_GOOGLE: Final = re.compile(r"^/amp/(?:s/)?(?=[^/]+\.)")
_AMP_CACHE: Final = re.compile(r"^/(?:[cvi]|wp)/(?:s/)?(?=[^/]+\.)")
_SAFE_PATH: Final = "!$&'()*+,;=:@/-._~"
_SAFE_VALUE: Final = "!$'()*,;:@/?-._~"
_MOST_FIELDS: Final = 200
"""Maximum parameters of a query; further ones are ignored."""


def canonical(url: str) -> str | None:
    """Returns the spelling by which to compare a URL; None if it is not an absolute URL, or too long."""
    text = url.strip()
    if not text or len(text) > MAX_URL:
        return None
    if text.startswith("//"):
        text = f"https:{text}"
    if not _SCHEME.match(text):
        return None
    if not text[:8].lower().startswith(("http://", "https://")):
        return text
    try:
        return _http(text, unwraps=3)
    except ValueError:  # an invalid port, an unclosed bracket, an impossible host name
        return None


def _http(text: str, unwraps: int) -> str | None:
    parts = urlsplit(text)
    inner = _wrapped(parts) if unwraps else None
    if inner is not None:
        return _http(inner, unwraps - 1)
    host = _host(parts.hostname or "")
    if not host:
        return None
    port = f":{parts.port}" if parts.port not in {None, 80, 443} else ""
    user = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
    query = _query(parts.query, host)
    fragment = f"#{parts.fragment}" if parts.fragment.startswith(("!", "/")) else ""
    return f"https://{user}{host}{port}{_path(parts.path)}{'?' if query else ''}{query}{fragment}"


def _host(name: str) -> str:
    name = name.rstrip(".").lower()
    if not name.isascii():
        name = name.encode("idna").decode("ascii")
    if ":" in name:
        return f"[{name}]"
    if _NO_NAME.search(name):
        return ""
    labels = name.split(".")
    kept = [label for label in labels[:-_LEAST_LABELS] if label not in _MOBILE] + labels[-_LEAST_LABELS:]
    return ".".join(kept)


def _path(path: str) -> str:
    path = _AMP_PATH.sub("", _resolved(_escaped(path, _SAFE_PATH)))
    return _INDEX.sub("", path).rstrip("/") or "/"


def _resolved(path: str) -> str:
    """Returns a path without `.` and `..` (RFC 3986, section 5.2.4)."""
    if "/." not in path:
        return path
    out: list[str] = []
    for piece in path.split("/")[1:]:
        if piece == "..":
            del out[-1:]
        elif piece != ".":
            out.append(piece)
    end = "/" if path.endswith(("/.", "/..")) else ""
    return "/" + "/".join(out) + end


def _escaped(text: str, safe: str) -> str:
    """Returns a text with escapes only where needed, in one form.

    An escaped reserved character stays escaped, because it differs from an unescaped one.
    """
    out: list[str] = []
    for number, piece in enumerate(re.split(r"((?:%[0-9A-Fa-f]{2})+)", text)):
        if number % 2 == 0:
            out.append(quote(piece, safe=safe, errors="replace"))
        else:
            out.append(quote(unquote_to_bytes(piece), safe="-._~"))
    return "".join(out)


def _query(query: str, host: str) -> str:
    pieces = [piece for piece in query.split("&", _MOST_FIELDS)[:_MOST_FIELDS] if piece]
    kept: list[tuple[str, str]] = []
    for piece in pieces:
        name, equals, value = piece.partition("=")
        if not _refers(name.lower(), host):
            kept.append((_escaped(name, _SAFE_VALUE), equals + _escaped(value, f"{_SAFE_VALUE}=")))
    return "&".join(name + value for name, value in sorted(kept, key=lambda field: field[0]))


def _refers(name: str, host: str) -> bool:
    if name in TRACKING or name == "amp" or name.startswith(_PREFIXES):
        return True
    return any(name in names for site, names in _OF_HOST.items() if host == site or host.endswith(f".{site}"))


def _wrapped(parts: SplitResult) -> str | None:
    """Returns the URL inside the redirect of a search engine or the address of an AMP cache; None for any other URL."""
    host = (parts.hostname or "").lower()
    if host.endswith("google.com") and (match := _AMP_GOOGLE.match(parts.path)):
        return f"https://{parts.path[match.end() :]}{'?' if parts.query else ''}{parts.query}"
    if host.endswith(".cdn.ampproject.org") and (match := _AMP_CACHE.match(parts.path)):
        return f"https://{parts.path[match.end() :]}{'?' if parts.query else ''}{parts.query}"
    names = _WRAPPED.get(f"{host}{parts.path}")
    if names is None:
        return None
    fields = dict(parse_qsl(parts.query, max_num_fields=_MOST_FIELDS))
    found = next((fields[name] for name in names if name in fields), "")
    return found if found.lower().startswith(("http://", "https://")) else None
