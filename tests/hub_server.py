"""A hub of one's own, over HTTP on this machine: it keeps what is committed and gives it back.

It speaks what the client asks for when a repository is made, files are uploaded (small ones within the commit, the
large ones through LFS), listed and downloaded. Whoever has no token may only read.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

TOKEN = "hf_of_the_tests"
LARGE = 10_000
"""Bytes from which on a file goes through LFS."""


class Hub:
    """The repositories: name -> file -> content; and what was asked, as "METHOD path"."""

    def __init__(self) -> None:
        self.repos: dict[str, dict[str, bytes]] = {}
        self.objects: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.url = ""

    def commit_of(self, repo: str) -> str:
        held = sorted((name, hashlib.sha1(data).hexdigest()) for name, data in self.repos[repo].items())
        return hashlib.sha1(repr(held).encode()).hexdigest()


class Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *rest: object) -> None: ...

    def answer(self, data: object = None, status: int = 200, headers: dict[str, str] | None = None) -> None:
        body = data if isinstance(data, bytes) else b"" if data is None else json.dumps(data).encode()
        self.send_response(status)
        kind = "application/octet-stream" if isinstance(data, bytes) else "application/json"
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status: int, code: str, said: str) -> None:
        self.answer({"error": said}, status, {"X-Error-Code": code, "X-Error-Message": said})

    def handle_one(self) -> None:
        path = unquote(urlsplit(self.path).path)
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        self.hub.asked.append(f"{self.command} {path}")
        writes = self.command in ("POST", "PUT")
        if writes and not path.startswith("/lfs/") and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.refuse(401, "", "Invalid username or password.")
        for method, pattern, answer in ROUTES:
            if method == self.command and (found := re.fullmatch(pattern, path)):
                return answer(self, body, *found.groups())
        return self.refuse(404, "EntryNotFound", f"the stand-in knows no {self.command} {path}")

    do_GET = do_HEAD = do_POST = do_PUT = handle_one  # noqa: N815 (the names are the library's)

    # -- answers -------------------------------------------------------------------------------------------------

    def create(self, body: bytes) -> None:
        told = json.loads(body)
        name = "/".join(filter(None, [told.get("organization") or "me", told["name"]]))
        known = name in self.hub.repos
        self.hub.repos.setdefault(name, {})
        self.answer({"url": f"{self.hub.url}/{name}", "name": name}, 409 if known else 200)

    def known(self, repo: str) -> bool:
        if repo not in self.hub.repos:
            self.refuse(404, "RepoNotFound", "Repository not found")
        return repo in self.hub.repos

    def preupload(self, body: bytes, repo: str) -> None:
        if self.known(repo):
            files = json.loads(body)["files"]
            modes = [
                {"path": each["path"], "uploadMode": "lfs" if each["size"] >= LARGE else "regular",
                 "shouldIgnore": False, "oid": None}
                for each in files
            ]  # fmt: skip
            self.answer({"files": modes})

    def batch(self, body: bytes, repo: str) -> None:
        objects = [
            {**each, "actions": {"upload": {"href": f"{self.hub.url}/lfs/{each['oid']}"}}}
            for each in json.loads(body)["objects"]
        ]
        self.answer({"transfer": "basic", "objects": objects})

    def put(self, body: bytes, oid: str) -> None:
        if hashlib.sha256(body).hexdigest() != oid:
            return self.refuse(400, "", "not this object")
        self.hub.objects[oid] = body
        return self.answer()

    def commit(self, body: bytes, repo: str) -> None:
        if not self.known(repo):
            return
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                self.hub.repos[repo][value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                self.hub.repos[repo][value["path"]] = self.hub.objects[value["oid"]]
        oid = self.hub.commit_of(repo)
        self.answer({"success": True, "commitOid": oid, "commitUrl": f"{self.hub.url}/{repo}/commit/{oid}"})

    def validate(self, body: bytes) -> None:
        self.answer({"errors": [], "warnings": []})

    def info(self, body: bytes, repo: str) -> None:
        if self.known(repo):
            held = [{"rfilename": name} for name in self.hub.repos[repo]]
            self.answer({"id": repo, "sha": self.hub.commit_of(repo), "siblings": held})

    def tree(self, body: bytes, repo: str) -> None:
        if self.known(repo):
            found = self.hub.repos[repo].items()
            self.answer([
                {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                for name, data in found
            ])  # fmt: skip

    def resolve(self, body: bytes, repo: str, name: str) -> None:
        if not self.known(repo):
            return None
        if name not in self.hub.repos[repo]:
            return self.refuse(404, "EntryNotFound", "Entry not found")
        data = self.hub.repos[repo][name]
        headers = {"ETag": f'"{hashlib.sha1(data).hexdigest()}"', "X-Repo-Commit": self.hub.commit_of(repo)}
        return self.answer(data, headers=headers)


REPO = r"([\w.-]+/[\w.-]+)"
ROUTES = [
    ("POST", "/api/repos/create", Handler.create),
    ("POST", "/api/validate-yaml", Handler.validate),
    ("POST", f"/api/models/{REPO}/preupload/main", Handler.preupload),
    ("POST", f"/api/models/{REPO}/commit/main", Handler.commit),
    ("POST", rf"/{REPO}\.git/info/lfs/objects/batch", Handler.batch),
    ("PUT", r"/lfs/(\w+)", Handler.put),
    ("GET", rf"/api/models/{REPO}(?:/revision/\w+)?", Handler.info),
    ("GET", rf"/api/models/{REPO}/tree/\w+", Handler.tree),
    ("GET", rf"/{REPO}/resolve/\w+/(.+)", Handler.resolve),
    ("HEAD", rf"/{REPO}/resolve/\w+/(.+)", Handler.resolve),
]


@contextmanager
def serving() -> Iterator[Hub]:
    """A hub that answers until the block ends."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Here", (Handler,), {"hub": hub}))
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
