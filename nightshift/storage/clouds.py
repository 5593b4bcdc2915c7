"""What differs between object stores: how each is opened, which errors may pass, and how it writes on a condition.

The store of another cloud is a class here, and its line in `STORES`.
"""

from collections.abc import Collection, Iterator
from typing import Any, ClassVar
from urllib.parse import quote

from nightshift.errors import UserError

# timeouts, throttling and errors of the server
PASSING = {408, 429, 500, 502, 503, 504}


class CloudStore:
    """Whatever else fsspec knows.

    Attributes:
        schemes: of its URIs, the usual one first.
        extra: of this package, which brings its library; empty without one.
        tries: how often an operation is tried.
    """

    schemes: ClassVar[tuple[str, ...]] = ()
    extra: ClassVar = ""
    tries: ClassVar = 5

    def options(self) -> dict[str, Any]:
        """Return what its file system is opened with, beside the user's own fsspec configuration."""
        return {}

    def prepare(self, fs: Any) -> None:
        """Set what its file system takes no option for."""

    def may_pass(self, error: BaseException) -> bool:
        """Return whether it may answer differently in a moment.

        By `status_code`, which Azure's answers carry, or else by what broke below the store's own error.
        """
        chain = list(_chain(error))
        for cause in chain:
            if isinstance(status := getattr(cause, "status_code", None), int):
                return status in PASSING
        return any(isinstance(cause, ConnectionError | TimeoutError) for cause in chain)

    def version(self, fs: Any, path: str) -> str:  # noqa: ARG002 - of those that can
        """Return the version of a file.

        Raises:
            UserError: when the store cannot write on a condition; so does `put`.
            FileNotFoundError: when there is no file.
        """
        raise UserError(f"{path}: this store cannot write on a condition; give a folder, s3://... or gs://...")

    def put(self, fs: Any, path: str, expected: str, data: bytes) -> bool:  # noqa: ARG002
        """Write a whole file if it has a version, or, if that is empty, is absent; return whether it was so."""
        return bool(self.version(fs, path))


class S3(CloudStore):
    """Amazon's, and what speaks like it."""

    schemes, extra = ("s3", "s3a"), "aws"
    # answered with status 400 too
    passing_codes: ClassVar = {
        "RequestTimeout", "RequestLimitExceeded", "SlowDown", "Throttling", "ThrottlingException"
    }  # fmt: skip
    # on a version that is no longer the newest, on two writes at once, and on a file that is gone
    conflicts: ClassVar = {"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey"}

    def options(self) -> dict[str, Any]:
        """Have each request tried once: tries of botocore's, and below of s3fs', would multiply ours."""
        import fsspec

        own = fsspec.config.conf.get("s3", {}).get("config_kwargs", {})
        return {"config_kwargs": own | {"retries": {"total_max_attempts": 1}}}

    def prepare(self, fs: Any) -> None:
        """Set what concerns this instance, which no other options share."""
        fs.retries = 1
        fs.max_concurrency = 1  # parts of 50 MB of a large file that are held at once

    def may_pass(self, error: BaseException) -> bool:
        """Judge by the network's errors, or the answer."""
        from aiohttp import ClientError as BrokenConnection
        from botocore import exceptions

        network = (exceptions.HTTPClientError, exceptions.ConnectionError, exceptions.IncompleteReadError)
        # whoever gives out the credentials, such as a node's metadata server
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
        bucket, key, _ = fs.split_path(path)
        condition = {"IfMatch": expected} if expected else {"IfNoneMatch": "*"}
        try:
            fs.call_s3("put_object", Bucket=bucket, Key=key, Body=data, **condition)
        except OSError as error:
            if self._answer(error)[1] in self.conflicts:
                return False
            raise
        return True

    def _answer(self, error: BaseException) -> tuple[int, str]:
        """Return the HTTP status and the code of an answer behind an error; 0 and "" when there is none."""
        from botocore.exceptions import ClientError

        for cause in _chain(error):  # s3fs turns them into errors of the system
            if isinstance(cause, ClientError):
                status = cause.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
                return status, cause.response.get("Error", {}).get("Code", "")
        return 0, ""


class GoogleCloudStorage(CloudStore):
    """Google's."""

    schemes, extra = ("gs", "gcs"), "gcp"
    tries = 1  # gcsfs always makes six itself, with pauses like ours

    def may_pass(self, error: BaseException) -> bool:
        """Judge as gcsfs does."""
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
    """Return the store of a URI's scheme, or of what fsspec calls a file system."""
    return next((store for store in STORES if any(scheme in protocols for scheme in store.schemes)), OTHER)


OTHER = CloudStore()


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what caused it."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
