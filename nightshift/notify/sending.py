"""Sends a message by a receiver's URL. No error says what is in the URL, which is a secret."""

import base64
import smtplib
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from email.errors import HeaderParseError
from http import HTTPStatus
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from nightshift.contracts.notification import Notification
from nightshift.http.addresses import is_loopback
from nightshift.http.client import BlockingConnection, ExchangeError, ServerAddress, SilentServerError, encode_request
from nightshift.notify import messages
from nightshift.runtime.errors import UnavailableError, UserError, may_pass

SECONDS = 5.0  # that a receiver may take
SUBMISSION = {"smtp": 587, "smtps": 465}  # ports
ENQUEUE = "/v2/enqueue"  # PagerDuty's path
FORMS = (
    "https://..., slack+https://hooks.slack.com/services/..., pagerduty+https://KEY@events.pagerduty.com, "
    "smtps://user:password@host/?from=...&to=..."
)

Send = Callable[[str, Sequence[Notification], float], None]
Resolve = Callable[[str, Sequence[str], float], None]


def send(url: str, notifications: Sequence[Notification], seconds: float = SECONDS) -> None:
    """Send one message.

    Args:
        url: of the receiver.
        notifications: one or more.
        seconds: timeout of each wait for the receiver, and of its answer.

    Raises:
        UserError: when the URL is wrong, or the receiver refuses the message.
        UnavailableError: when the receiver is down, slow, or fails.
    """
    parts = _parse(url)
    SENDERS[parts.scheme](parts, notifications, seconds)


def resolve(url: str, causes: Sequence[str], seconds: float = SECONDS) -> None:
    """Tell a receiver that keeps alerts open, which is PagerDuty, that the causes of one have ended.

    Args:
        url: of the receiver.
        causes: of the notifications that it took in one message, in their order.
        seconds: see `send`.

    Raises:
        UserError, UnavailableError: see `send`.
    """
    parts = _parse(url)
    if SENDERS[parts.scheme] is _send_pagerduty:
        _post_pagerduty(parts, lambda key: messages.encode_pagerduty_end(causes, key), seconds)


def _parse(url: str) -> SplitResult:
    """Check a URL.

    Raises:
        UserError: when it is wrong; the message has nothing of it.
    """
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in SENDERS and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_valid = False
    if not (is_valid and url.isascii() and url.isprintable() and " " not in url):
        raise UserError(f"holds no URL of a receiver; allowed: {FORMS}, and http in place of https on this machine")
    return parts


def _send_webhook(parts: SplitResult, notifications: Sequence[Notification], seconds: float) -> None:
    login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}".encode()
    headers = {"authorization": f"Basic {base64.b64encode(login).decode()}"} if parts.username else {}
    _post(parts, messages.encode_webhook(notifications), seconds, headers)


def _send_slack(parts: SplitResult, notifications: Sequence[Notification], seconds: float) -> None:
    _post(parts, messages.encode_slack(notifications), seconds)


def _send_pagerduty(parts: SplitResult, notifications: Sequence[Notification], seconds: float) -> None:
    _post_pagerduty(parts, lambda key: messages.encode_pagerduty(notifications, key), seconds)


def _post_pagerduty(parts: SplitResult, encode: Callable[[str], bytes], seconds: float) -> None:
    if not parts.username:
        raise UserError("has no integration key; write pagerduty+https://KEY@events.pagerduty.com")
    path = parts.path.rstrip("/") or ENQUEUE
    _post(parts._replace(path=path), encode(unquote(parts.username)), seconds)


def _post(parts: SplitResult, body: bytes, seconds: float, headers: Mapping[str, str] | None = None) -> None:
    scheme = parts.scheme.rpartition("+")[2]
    address = ServerAddress.from_url(parts._replace(scheme=scheme).geturl())
    target = parts._replace(scheme="", netloc="", path=parts.path or "/", fragment="").geturl()
    request = encode_request("POST", target, address.authority, body, headers=headers or {})
    try:
        status = _exchange(address, request, seconds)
    except ExchangeError as error:
        raise UnavailableError(f"is not delivered: {error}") from None
    if may_pass(status):
        raise UnavailableError(f"is not delivered: the receiver answered {status}")
    if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        raise UserError(f"was refused: the receiver answered {status}; check the URL in the variable")


def _exchange(address: ServerAddress, request: bytes, seconds: float) -> int:
    """Return the status of the answer, which has to come in time, even where it does byte by byte; no body matters."""
    with closing(BlockingConnection(address, seconds)) as connection:
        deadline = time.monotonic() + seconds
        connection.send(request)
        while not (connection.receive() or connection.status):
            if time.monotonic() > deadline:
                raise SilentServerError("the server has not responded in time")
        return connection.status


def _send_email(parts: SplitResult, notifications: Sequence[Notification], seconds: float) -> None:
    query = parse_qs(parts.query)
    if not ("from" in query and "to" in query):
        raise UserError("has no sender and recipients; write smtps://user:password@host/?from=...&to=...")
    try:
        message = messages.write_email(notifications, query["from"][0], ", ".join(query["to"]))
        with closing(_connect(parts, seconds)) as server:
            server.send_message(message)
            with suppress(smtplib.SMTPException, OSError):  # the message is taken, whatever the goodbye is
                server.quit()
    except (smtplib.SMTPResponseException, smtplib.SMTPRecipientsRefused) as error:
        raise _explain_refusal(error) from None
    except (smtplib.SMTPException, OSError) as error:
        raise UnavailableError(f"is not delivered: no e-mail server answers in time ({type(error).__name__})") from None
    except (HeaderParseError, ValueError):
        raise UserError("has a wrong sender or recipient; write addresses, such as from=nights@example.com") from None


def _connect(parts: SplitResult, seconds: float) -> smtplib.SMTP:
    """Return a connection that is logged in; a password goes over TLS, or stays on this machine."""
    host, port, context = str(parts.hostname), parts.port or SUBMISSION[parts.scheme], ssl.create_default_context()
    if parts.scheme == "smtps":
        server: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=seconds, context=context)
    else:
        server = smtplib.SMTP(host, port, timeout=seconds)
        server.ehlo()
        if server.has_extn("starttls"):
            server.starttls(context=context)
        elif parts.username and not is_loopback(host):
            server.close()
            raise UserError("would send its password in the clear: the server has no STARTTLS; write smtps://...")
    if parts.username:
        server.login(unquote(parts.username), unquote(parts.password or ""))
    return server


def _explain_refusal(error: smtplib.SMTPResponseException | smtplib.SMTPRecipientsRefused) -> Exception:
    """Return the error of a refusal; codes below 500 may be gone at the next try (RFC 5321)."""
    if isinstance(error, smtplib.SMTPResponseException):
        codes = [error.smtp_code]
    else:
        codes = [code for code, _ in error.recipients.values()]
    if min(codes) < 500:
        return UnavailableError(f"is not delivered: the e-mail server answered {min(codes)}")
    return UserError(f"was refused: the e-mail server answered {min(codes)}; check login, sender and recipients")


Sender = Callable[[SplitResult, Sequence[Notification], float], None]
_HTTP: dict[str, Sender] = {"": _send_webhook, "slack+": _send_slack, "pagerduty+": _send_pagerduty}
SENDERS: Mapping[str, Sender] = {
    **{f"{kind}{scheme}": sender for kind, sender in _HTTP.items() for scheme in ("https", "http")},
    **dict.fromkeys(SUBMISSION, _send_email),
}
