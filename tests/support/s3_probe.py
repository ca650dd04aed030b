"""What a test may ask the S3 server itself, past the store: objects and uploads that are under way."""

import contextlib
import http.client
import re
from urllib.parse import quote, urlsplit

from support.s3 import S3Server
from support.s3_keeper import BUCKET


def uploads_under_way(server: S3Server, url: str) -> list[str]:
    """Keys under a blob URL's prefix that have an upload in parts which is neither joined nor aborted.

    For servers that check no signatures.
    """
    prefix = urlsplit(url).path.lstrip("/")
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", f"/{BUCKET}?uploads&prefix={quote(prefix)}")
        answer = connection.getresponse().read().decode()
    return re.findall(r"<Upload>.*?<Key>(.*?)</Key>", answer, re.DOTALL)
