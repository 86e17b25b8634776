"""S3 server on loopback: moto from PyPI, with one bucket."""

import os
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from xml.etree import ElementTree

from cluster import check, free_port, until


class S3Server:
    """Server of one bucket, in memory. It accepts any credentials."""

    url = "s3://bucket"

    def __init__(self, program: Path, log: Path):
        self.program, self.log = program, log
        # Loopback is reached without a proxy.
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def __enter__(self):
        port = free_port()
        self.endpoint = f"http://127.0.0.1:{port}"
        self.env = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test-secret", "AWS_REGION": "us-east-1",
                    "AWS_ALLOW_HTTP": "true", "AWS_ENDPOINT_URL": self.endpoint}
        with open(self.log, "wb") as log:
            words = [self.program, "-H", "127.0.0.1", "-p", str(port)]
            self.child = subprocess.Popen(words, stdout=log, stderr=log, env={**os.environ, "PYTHONUNBUFFERED": "1"})
        until(self.is_ready, 60, "an S3 server")
        self.send("PUT", "")
        return self

    def __exit__(self, *_):
        self.child.terminate()
        self.child.wait()

    def is_ready(self) -> bool:
        check(self.child.poll() is None, f"the S3 server ended; see {self.log}")
        try:
            self.opener.open(f"{self.endpoint}/moto-api/", timeout=10).close()
        except OSError:
            return False
        return True

    def send(self, method: str, name: str, body: bytes | None = None, **query: str) -> bytes:
        url = f"{self.endpoint}/bucket/{urllib.parse.quote(name)}?{urllib.parse.urlencode(query)}"
        # The default of urllib, a form, would be parsed by the server.
        headers = {"Content-Type": "application/octet-stream", "Authorization": "AWS test:unchecked"}
        request = urllib.request.Request(url, data=body, method=method, headers=headers)
        with self.opener.open(request, timeout=60) as answer:
            return answer.read()

    def remove(self, name: str) -> None:
        self.send("DELETE", name)

    def unfinished(self, prefix: str) -> list[str]:
        """Names of the unfinished multipart uploads below a prefix."""
        page = ElementTree.fromstring(self.send("GET", "", uploads="", prefix=prefix))
        return [key.text for key in page.iterfind("{*}Upload/{*}Key")]

    def upload(self, folder: Path, prefix: str) -> None:
        """Uploads the files of a folder."""
        for path in sorted(folder.iterdir()):
            self.send("PUT", f"{prefix}{path.name}", path.read_bytes())

    def names(self, prefix: str) -> list[str]:
        """Names of the objects below a prefix, without it."""
        names, query = [], {"list-type": "2", "prefix": prefix}
        while True:
            page = ElementTree.fromstring(self.send("GET", "", **query))
            names += [key.text.removeprefix(prefix) for key in page.iterfind("{*}Contents/{*}Key")]
            if page.findtext("{*}IsTruncated") != "true":
                return names
            query["continuation-token"] = page.findtext("{*}NextContinuationToken")

    def objects(self, prefix: str) -> dict[str, bytes]:
        return {name: self.send("GET", prefix + name) for name in self.names(prefix)}
