"""Requests that a web page makes another site's visitor send to a server on this machine.

A browser sends a page's requests to 127.0.0.1 too, and with DNS rebinding (a name of the page's owner that resolves to
127.0.0.1) the page also reads the answers. `Host` and `Origin`, which no page can set, reveal both. With a
token, which no page knows, the check is not needed.
"""

from urllib.parse import urlsplit

from nightshift.http.addresses import is_loopback
from nightshift.http.errors import ContentTypeError, CrossSiteError
from nightshift.http.messages import HttpRequest

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"  # the default of curl -d and urllib
ALLOWED = "localhost, 127.0.0.1 or [::1]; let the server require a token to be reached by other names"


def check_site(request: HttpRequest) -> None:
    """Refuse a request that was sent to, or by a page of, another host than this machine.

    Raises:
        CrossSiteError: naming the header, its value and what is allowed.
    """
    host, origin = request.headers.get(b"host"), request.headers.get(b"origin")
    if host is not None and not _is_here("//" + host.decode("latin-1")):  # HTTP/1.0 has none
        raise CrossSiteError("Host", request.header(b"host"), ALLOWED)
    if origin is not None and not _is_here(origin.decode("latin-1")):
        raise CrossSiteError("Origin", request.header(b"origin"), ALLOWED)


def check_type(request: HttpRequest, allowed: tuple[str, ...]) -> None:
    """Refuse a body of another type than a route takes; a body without a type is admitted.

    Args:
        request: its headers.
        allowed: types, or with a slash at the end all of a kind, such as `image/`.

    Raises:
        ContentTypeError: naming the type and what is allowed.
    """
    media_type = request.header(b"content-type").partition(";")[0].strip().lower()
    if not media_type or media_type in allowed:
        return
    # a form on a web page comes with an Origin
    is_unnamed = media_type == FORM and b"origin" not in request.headers
    if not is_unnamed and f"{media_type.partition('/')[0]}/" not in allowed:
        raise ContentTypeError("Content-Type", media_type, ", ".join(allowed))


def _is_here(url: str) -> bool:
    """Return whether the host of a URL is this machine's loopback."""
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False
