"""Differences between object stores: options, transient errors, conditional writes.

Another cloud's store is a class here with an entry in `STORES`.
"""

from collections.abc import Collection, Iterator
from typing import Any, ClassVar
from urllib.parse import quote

from nightshift.runtime.errors import UserError

# timeouts, throttling and server errors
PASSING = {408, 429, 500, 502, 503, 504}


class CloudStore:
    """The store of any other scheme of fsspec.

    Attributes:
        schemes: schemes of its URIs, the usual one first.
        extra: extra of this package with its library; empty without one.
        tries: number of tries of an operation.
    """

    schemes: ClassVar[tuple[str, ...]] = ()
    extra: ClassVar = ""
    tries: ClassVar = 5

    def options(self) -> dict[str, Any]:
        """Return the options of its file system, besides the user's own fsspec configuration."""
        return {}

    def prepare(self, fs: Any) -> None:
        """Configure its file system beyond the options."""

    def may_pass(self, error: BaseException) -> bool:
        """Return whether an error is transient.

        Decided by `status_code`, as in Azure's answers, or else by the causes of the store's own error.
        """
        chain = list(_chain(error))
        for cause in chain:
            if isinstance(status := getattr(cause, "status_code", None), int):
                return status in PASSING
        return any(isinstance(cause, ConnectionError | TimeoutError) for cause in chain)

    def version(self, fs: Any, path: str) -> str:  # noqa: ARG002 - used by subclasses
        """Return the version of a file.

        Raises:
            UserError: when the store has no conditional writes; so does `put`.
            FileNotFoundError: when there is no file.
        """
        raise UserError(f"{path}: this store cannot write on a condition; give a folder, s3://... or gs://...")

    def put(self, fs: Any, path: str, expected: str, data: bytes) -> bool:  # noqa: ARG002
        """Write a whole file if it has the expected version, or is absent for an empty one; return whether it was."""
        return bool(self.version(fs, path))


class S3(CloudStore):
    """Amazon S3 and compatible stores."""

    schemes, extra = ("s3", "s3a"), "aws"
    # these come with status 400 too
    passing_codes: ClassVar = {
        "RequestTimeout", "RequestLimitExceeded", "SlowDown", "Throttling", "ThrottlingException"
    }  # fmt: skip
    # for an outdated version, for two writes at once, and for a removed file
    conflicts: ClassVar = {"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey"}

    def options(self) -> dict[str, Any]:
        """Allow one try a request: botocore's and s3fs' tries would multiply ours."""
        import fsspec

        own = fsspec.config.conf.get("s3", {}).get("config_kwargs", {})
        return {"config_kwargs": own | {"retries": {"total_max_attempts": 1}}}

    def prepare(self, fs: Any) -> None:
        """Configure this instance, which no other options share."""
        fs.retries = 1
        fs.max_concurrency = 1  # parts of 50 MB of a large file in memory

    def may_pass(self, error: BaseException) -> bool:
        """Decide by network errors, or by the answer."""
        from aiohttp import ClientError as BrokenConnection
        from botocore import exceptions

        network = (exceptions.HTTPClientError, exceptions.ConnectionError, exceptions.IncompleteReadError)
        # from the source of credentials, such as a node's metadata server
        credentials = (exceptions.CredentialRetrievalError, exceptions.MetadataRetrievalError)
        if isinstance(error, (*network, *credentials, BrokenConnection, ConnectionError, TimeoutError)):
            return True
        status, code = self._answer(error)
        return status in PASSING or code in self.passing_codes

    def version(self, fs: Any, path: str) -> str:
        """Return the ETag."""
        return str(fs.info(path)["ETag"])

    def put(self, fs: Any, path: str, expected: str, data: bytes) -> bool:
        """Write by `If-Match`."""
        self._require_conditions(fs, path)
        return self._put(fs, path, {"IfMatch": expected} if expected else {"IfNoneMatch": "*"}, data)

    def _require_conditions(self, fs: Any, path: str) -> None:
        """Check once that the server heeds conditions: where one ignores them, each of two writers believes it won.

        Raises:
            UserError: when it writes a file on a condition that does not hold.
        """
        if getattr(fs, "has_conditions", False):
            return
        probe = f"{path.rpartition('/')[0]}/.conditions"
        if self._put(fs, probe, {"IfMatch": '"0"'}, b""):
            fs.rm_file(probe)
            raise UserError(
                f"s3://{path}: this server ignores the condition of a write (If-Match), so that two runs could "
                "overwrite each other's record; give a folder, gs://..., or an S3 server that heeds it"
            )
        fs.has_conditions = True

    def _put(self, fs: Any, path: str, condition: dict[str, str], data: bytes) -> bool:
        bucket, key, _ = fs.split_path(path)
        try:
            fs.call_s3("put_object", Bucket=bucket, Key=key, Body=data, **condition)
        except OSError as error:
            if self._answer(error)[1] in self.conflicts:
                return False
            raise
        return True

    def _answer(self, error: BaseException) -> tuple[int, str]:
        """Return the HTTP status and the code of the answer behind an error; 0 and "" without an answer."""
        from botocore.exceptions import ClientError

        for cause in _chain(error):  # s3fs wraps them in system errors
            if isinstance(cause, ClientError):
                status = cause.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
                return status, cause.response.get("Error", {}).get("Code", "")
        return 0, ""


class GoogleCloudStorage(CloudStore):
    """Google Cloud Storage."""

    schemes, extra = ("gs", "gcs"), "gcp"
    tries = 1  # gcsfs always makes six itself, with pauses like ours

    def may_pass(self, error: BaseException) -> bool:
        """Decide as gcsfs does."""
        from gcsfs.retry import is_retriable
        from google.auth.exceptions import RefreshError, TransportError

        if isinstance(error, RefreshError):  # the credentials are refused
            return False
        return bool(is_retriable(error)) or isinstance(error, ConnectionError | TimeoutError | TransportError)

    def version(self, fs: Any, path: str) -> str:
        """Return the generation."""
        return str(fs.info(path)["generation"])

    def put(self, fs: Any, path: str, expected: str, data: bytes) -> bool:
        """Write by `ifGenerationMatch`."""
        bucket, key, _ = fs.split_path(path)
        url = f"{fs.base.replace('/storage/v1/', '/upload/storage/v1/')}b/{quote(bucket, safe='')}/o"
        condition = {"uploadType": "media", "name": key, "ifGenerationMatch": expected or "0"}
        try:
            fs.call("POST", url, headers={"Content-Type": "application/json"}, data=data, **condition)
        except FileExistsError:  # status 412
            return False
        return True


STORES: tuple[CloudStore, ...] = (S3(), GoogleCloudStorage())
SCHEMES = [store.schemes[0] for store in STORES]


def find(protocols: Collection[str]) -> CloudStore:
    """Return the store of a URI's scheme, or of a file system's fsspec protocols."""
    return next((store for store in STORES if any(scheme in protocols for scheme in store.schemes)), OTHER)


OTHER = CloudStore()


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
