"""A small Hugging Face Hub: model repositories with commits, tags and LFS, by its HTTP API, over real HTTP.

Of the API there is what `huggingface_hub` uses to create a repository, commit to it, tag it, list and download it. Like
the Hub it answers for a private repository without a token as if there were none.
"""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import RLock
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from nightshift_testkit.servers import serving

TOKEN = "hf_stand_in"
LFS_ENDINGS = (".onnx", ".safetensors", ".gguf", ".parquet", ".bin")
BRANCH = "main"


@dataclass(frozen=True)
class HubFile:
    """A file of a commit.

    Attributes:
        content: its bytes.
        is_lfs: whether git holds a pointer to it only.
    """

    content: bytes
    is_lfs: bool

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def blob(self) -> str:
        """Git's hash of the content, or of the pointer to it."""
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {len(self.content)}\n"
        stored = pointer.encode() if self.is_lfs else self.content
        return hashlib.sha1(b"blob %d\0" % len(stored) + stored).hexdigest()  # noqa: S324 - git's

    @property
    def etag(self) -> str:
        return self.sha256 if self.is_lfs else self.blob

    def describe(self, path: str) -> dict[str, Any]:
        """An entry of a listing."""
        entry = {"type": "file", "path": path, "oid": self.blob, "size": len(self.content)}
        lfs = {"oid": self.sha256, "size": len(self.content), "pointerSize": 134}
        return entry | ({"lfs": lfs} if self.is_lfs else {})


@dataclass
class HubRepository:
    """A model repository.

    Attributes:
        private: whether it is there with the token only.
        commits: hash -> path -> file, oldest first.
        tags: tag -> hash.
    """

    private: bool = False
    commits: dict[str, Mapping[str, HubFile]] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)

    @property
    def head(self) -> str:
        return list(self.commits)[-1]

    @property
    def files(self) -> Mapping[str, HubFile]:
        """The files of the newest commit."""
        return self.commits[self.head]

    def commit(self, files: Mapping[str, HubFile], summary: str = "") -> str:
        """Add a commit with these files; return its hash."""
        content = [list(self.commits), summary, {path: entry.blob for path, entry in sorted(files.items())}]
        name = hashlib.sha1(json.dumps(content).encode()).hexdigest()  # noqa: S324 - as git's
        self.commits[name] = dict(files)
        return name

    def find_commit(self, revision: str) -> str | None:
        """The hash of a branch, a tag or a hash."""
        name = self.head if revision == BRANCH else self.tags.get(revision, revision)
        return name if name in self.commits else None


class HubServer(ThreadingHTTPServer):
    """The Hub.

    Attributes:
        repositories: name -> repository.
        objects: SHA-256 -> what LFS holds.
        requests: method and path of each request.
        failures: statuses that the next requests are answered with; 0: as usual.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), HubHandler)
        self.repositories: dict[str, HubRepository] = {}
        self.objects: dict[str, bytes] = {}
        self.requests: list[tuple[str, str]] = []
        self.failures: list[int] = []
        self.lock = RLock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def publish(self, name: str, files: Mapping[str, bytes]) -> str:
        """Have a public repository with these files; return the commit's hash."""
        repository = self.repositories.setdefault(name, HubRepository())
        stored = {path: HubFile(content, path.endswith(LFS_ENDINGS)) for path, content in files.items()}
        self.objects |= {entry.sha256: entry.content for entry in stored.values() if entry.is_lfs}
        return repository.commit(stored)


@contextmanager
def serve() -> Iterator[HubServer]:
    """Serve an empty Hub; clients find it by HF_ENDPOINT."""
    server = HubServer()
    with serving(server):
        yield server


class HubError(Exception):
    """An error as the Hub answers it."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class HubHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer in one packet: two would wait for each other's acknowledgment
    server: HubServer

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = urlsplit(self.path).path
        self.server.requests.append((self.command, path))
        try:
            if self.server.failures and (status := self.server.failures.pop(0)):
                raise HubError(status, "", "the server fails")
            with self.server.lock:
                self._route(path, body)
        except HubError as error:
            headers = {"X-Error-Code": error.code, "X-Error-Message": str(error)}
            self._answer({"error": str(error)}, error.status, headers)

    do_GET = do_HEAD = do_POST = do_PUT = _handle  # noqa: N815 - their names

    def _route(self, path: str, body: bytes) -> None:
        for methods, pattern, answer in ROUTES:
            if self.command in methods and (match := re.fullmatch(pattern, path)):
                answer(self, body, *map(unquote, match.groups()))
                return
        raise HubError(404, "", f"no {self.command} {path}")

    def _find(self, name: str) -> HubRepository:
        repository = self.server.repositories.get(name)
        if repository is None or (repository.private and not self._is_known):
            raise HubError(404 if self._is_known else 401, "RepoNotFound", "Repository not found")
        return repository

    def _find_files(self, name: str, revision: str) -> tuple[str, Mapping[str, HubFile]]:
        repository = self._find(name)
        commit = repository.find_commit(revision)
        if commit is None:
            raise HubError(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return commit, repository.commits[commit]

    def _write(self, name: str) -> HubRepository:
        """The repository, for those who may change it."""
        self._require_token()
        return self._find(name)

    def _require_token(self) -> None:
        if not self._is_known:
            raise HubError(401, "", "Invalid username or password.")

    @property
    def _is_known(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def _answer(self, value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self._send(json.dumps(value).encode(), status, {"Content-Type": "application/json", **(headers or {})})

    def _send(self, content: bytes, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass

    def create(self, body: bytes) -> None:
        self._require_token()
        wanted = json.loads(body)
        name = f"{wanted.get('organization') or 'somebody'}/{wanted['name']}"
        url = f"{self.server.url}/{name}"
        if name in self.server.repositories:
            self._answer({"error": "You already created this model repo", "url": url}, 409)
            return
        repository = self.server.repositories[name] = HubRepository(wanted.get("visibility") == "private")
        repository.commit({".gitattributes": HubFile(b"*.onnx filter=lfs\n", False)}, "initial commit")
        self._answer({"url": url, "name": name})

    def show(self, _: bytes, name: str, revision: str | None = None) -> None:
        commit, files = self._find_files(name, revision or BRANCH)
        siblings = [{"rfilename": path} for path in files]
        self._answer({"id": name, "sha": commit, "private": self._find(name).private, "siblings": siblings})

    def list_tree(self, _: bytes, name: str, revision: str) -> None:
        self._answer([entry.describe(path) for path, entry in self._find_files(name, revision)[1].items()])

    def list_paths(self, body: bytes, name: str, revision: str) -> None:
        files = self._find_files(name, revision)[1]
        paths = parse_qs(body.decode()).get("paths", [])
        self._answer([files[path].describe(path) for path in paths if path in files])

    def list_refs(self, _: bytes, name: str) -> None:
        repository = self._find(name)
        tags = [{"name": tag, "ref": f"refs/tags/{tag}", "targetCommit": at} for tag, at in repository.tags.items()]
        branch = {"name": BRANCH, "ref": f"refs/heads/{BRANCH}", "targetCommit": repository.head}
        self._answer({"branches": [branch], "tags": tags, "converts": []})

    def tag(self, body: bytes, name: str, revision: str) -> None:
        repository, tag = self._write(name), json.loads(body)["tag"]
        if tag in repository.tags:
            raise HubError(409, "", f"Reference already exists: refs/tags/{tag}")
        repository.tags[tag] = self._find_files(name, revision)[0]
        self._answer({})

    def preupload(self, body: bytes, name: str, revision: str) -> None:
        self._write(name)
        files = self._find_files(name, revision)[1]
        self._answer({"files": [self._choose_mode(entry, files) for entry in json.loads(body)["files"]]})

    def _choose_mode(self, wanted: Mapping[str, Any], files: Mapping[str, HubFile]) -> dict[str, Any]:
        path = wanted["path"]
        mode = {"uploadMode": "lfs" if path.endswith(LFS_ENDINGS) else "regular", "shouldIgnore": False}
        return {"path": path} | mode | ({"oid": files[path].etag} if path in files else {})

    def batch(self, body: bytes, name: str) -> None:
        self._write(name)
        self._answer({"transfer": "basic", "objects": [self._offer(entry) for entry in json.loads(body)["objects"]]})

    def _offer(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        link = {"href": f"{self.server.url}/lfs/{wanted['oid']}"}
        actions = {"actions": {"upload": link, "verify": {"href": f"{link['href']}/verify"}}}
        return {"oid": wanted["oid"], "size": wanted["size"]} | (
            {} if wanted["oid"] in self.server.objects else actions
        )

    def upload(self, body: bytes, oid: str) -> None:
        if hashlib.sha256(body).hexdigest() != oid:
            raise HubError(400, "", "the bytes have another hash")
        self.server.objects[oid] = body
        self._answer({})

    def verify(self, body: bytes, oid: str) -> None:
        if len(self.server.objects.get(oid, b"")) != json.loads(body)["size"]:
            raise HubError(404, "", "no such object")
        self._answer({})

    def download(self, _: bytes, oid: str) -> None:
        self._send(self.server.objects[oid], 200, {"ETag": f'"{oid}"'})

    def commit(self, body: bytes, name: str, revision: str) -> None:
        repository = self._write(name)
        lines = [json.loads(line) for line in body.splitlines()]
        files = dict(self._find_files(name, revision)[1])
        for line in lines[1:]:
            self._apply(files, line["key"], line["value"])
        commit = repository.commit(files, lines[0]["value"]["summary"])
        url = f"{self.server.url}/{name}/commit/{commit}"
        self._answer({"success": True, "commitOid": commit, "commitUrl": url, "hookOutput": ""})

    def _apply(self, files: dict[str, HubFile], key: str, value: Mapping[str, Any]) -> None:
        path = value["path"]
        if key == "file":
            files[path] = HubFile(base64.b64decode(value["content"]), False)
        elif key == "lfsFile":
            if value["oid"] not in self.server.objects:
                raise HubError(400, "", f"LFS pointer of {path} points to a file that does not exist")
            files[path] = HubFile(self.server.objects[value["oid"]], True)
        elif key == "deletedFile":
            if files.pop(path, None) is None:
                raise HubError(404, "EntryNotFound", "A file with this name doesn't exist")
        else:
            raise HubError(400, "", f"no operation {key}")

    def resolve(self, _: bytes, name: str, revision: str, path: str) -> None:
        commit, files = self._find_files(name, revision)
        if path not in files:
            raise HubError(404, "EntryNotFound", "Entry not found")
        entry = files[path]
        headers = {"X-Repo-Commit": commit, "ETag": f'"{entry.blob}"'}
        if entry.is_lfs:
            linked = {"X-Linked-Etag": f'"{entry.sha256}"', "X-Linked-Size": str(len(entry.content))}
            # another host, as the Hub's storage is
            location = f"http://localhost:{self.server.server_port}/lfs/{entry.sha256}"
            self._send(b"", 302, headers | linked | {"Location": location})
        else:
            self._send(entry.content, 200, headers)

    def validate(self, _: bytes) -> None:
        self._answer({"errors": [], "warnings": []})


READ = ("GET", "HEAD")
MODEL = "/api/models/([^/]+/[^/]+)"
Answer = Callable[..., None]
ROUTES: tuple[tuple[tuple[str, ...], str, Answer], ...] = (
    (("POST",), "/api/repos/create", HubHandler.create),
    (("POST",), "/api/validate-yaml", HubHandler.validate),
    (READ, MODEL, HubHandler.show),
    (READ, f"{MODEL}/revision/([^/]+)", HubHandler.show),
    (READ, f"{MODEL}/tree/([^/]+)", HubHandler.list_tree),
    (("POST",), f"{MODEL}/paths-info/([^/]+)", HubHandler.list_paths),
    (READ, f"{MODEL}/refs", HubHandler.list_refs),
    (("POST",), f"{MODEL}/tag/([^/]+)", HubHandler.tag),
    (("POST",), f"{MODEL}/preupload/([^/]+)", HubHandler.preupload),
    (("POST",), f"{MODEL}/commit/([^/]+)", HubHandler.commit),
    (("POST",), r"/([^/]+/[^/]+)\.git/info/lfs/objects/batch", HubHandler.batch),
    (("PUT",), "/lfs/([0-9a-f]{64})", HubHandler.upload),
    (("POST",), "/lfs/([0-9a-f]{64})/verify", HubHandler.verify),
    (READ, "/lfs/([0-9a-f]{64})", HubHandler.download),
    (READ, "/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", HubHandler.resolve),
)
