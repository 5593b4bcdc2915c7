"""Corner cases of HTTP/1.1: what a client sends, how it is answered, and why.

They are those of the published tests of h11 and llhttp and of RFC 9110 and 9112, as facts, with requests of our own.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tests.nightshift.http.echo import raw

NEXT = raw("GET /next HTTP/1.1", "Host: h", "Connection: close")
LENGTH, CHUNKED = "Content-Length: 3", "Transfer-Encoding: chunked"
CHUNKS = b"3\r\nabc\r\n0\r\n\r\n"

# what `Echo` answers to requests of these cases with `NEXT` behind them, until the connection is closed
ABC, EMPTY, FOLLOWED = b"/a abc", b"/a ", b"/next "
READ, SKIPPED, CLOSED = (ABC, FOLLOWED), (EMPTY, FOLLOWED), (EMPTY,)
REFUSED = (400,)  # nothing behind it is read


class Case(NamedTuple):
    """Bytes of a client.

    Attributes:
        sent: before `NEXT`.
        answers: the body of each response with status 200, the status of each other one.
        reason: why.
    """

    sent: bytes
    answers: tuple[bytes | int, ...]
    reason: str


def get(*headers: str, body: bytes = b"") -> bytes:
    return raw("GET /a HTTP/1.1", "Host: h", *headers, body=body)


def post(*headers: str, body: bytes = b"abc") -> bytes:
    return raw("POST /a HTTP/1.1", "Host: h", *headers, body=body)


def chunked(body: bytes) -> bytes:
    return post(CHUNKED, body=body)


def line(text: str) -> bytes:
    return raw(text, "Host: h")


def targets(*targets: str) -> list[bytes]:
    return [line(f"GET {target} HTTP/1.1") for target in targets]


def old(*headers: str, body: bytes = b"") -> bytes:
    return raw("POST /a HTTP/1.0", *headers, body=body)


def group(answers: tuple[bytes | int, ...], reason: str, requests: Iterable[bytes]) -> list[Case]:
    return [Case(sent, answers, reason) for sent in requests]


LENGTHS = [
    *group(READ, "white space around a value is none of it (RFC 9112 5), zeros before a length change nothing",
           [post(f"Content-Length:{length}") for length in ("3", " 3", " 3 ", "\t3\t", " 003", f" {'0' * 5000}3 ")]),
    *group(REFUSED, "a length is decimal digits (RFC 9110 8.6): what another server may read otherwise is refused",
           [post(f"Content-Length: {length}") for length in ("+3", "-3", "0x3", "3_0", "3 3", "3.0", "3e0", "3;a",
           "3\x0b",
                                                             "\x0b3", "\xb3", "", "18446744073709551616", "9" * 5000)]),
    *group(REFUSED, "lengths that differ have to be refused, equal ones may be (RFC 9110 8.6)",
           [post(LENGTH, "Content-Length: 4"), post(LENGTH, LENGTH), post("Content-Length: 3, 3"),
            post("Content-Length: 3,3"), post("Content-Length: 3, 4")]),
    *group(REFUSED, "a length beside chunks may be an attempt to smuggle a request (RFC 9112 6.3)",
           [post(LENGTH, CHUNKED, body=CHUNKS), post(CHUNKED, LENGTH, body=CHUNKS),
            post(LENGTH, "Transfer-Encoding: identity")]),
    *group((413,), "a length beyond the limit is refused before the body comes",
           [post("Content-Length: 18446744073709551615"), post("Content-Length: 9999999999")]),
    *group(SKIPPED, "another header is no length", [post("Content_Length: 3", body=b""), get("Length: 3")]),
    *group((EMPTY, 400), "without a length there is no body: what follows is no request (RFC 9112 6.3)",
           [get(body=b"abc"), post(body=b"abc"), post("Content-Length: 0", body=b"abc")]),
    *group((ABC, 400), "what follows a body is no request", [post(LENGTH, body=b"abcd"), post(LENGTH, body=b"abc ")]),
    *group(READ, "a body has no meaning for the method, and is read all the same (RFC 9110 9.3.1)",
           [get(LENGTH, body=b"abc"), get(CHUNKED, body=CHUNKS), raw("DELETE /a HTTP/1.1", "Host: h", LENGTH,
           body=b"abc")]),
]  # fmt: skip

CODINGS = [
    *group(READ, "codings have no case, white space around a value is none of it (RFC 9112 5 and 7)",
           [post(f"Transfer-Encoding:{coding}", body=CHUNKS) for coding in (" chunked", "chunked", " CHUNKED",
           "  chunked ")]),
    *group(REFUSED, "the parser is stricter than RFC 9112 5: a tab behind the coding is refused",
           [post("Transfer-Encoding: chunked\t", body=CHUNKS)]),
    *group(REFUSED, "where chunked is not last, nobody knows where the body ends (RFC 9112 6.3)",
           [post(f"Transfer-Encoding: {coding}", body=CHUNKS)
            for coding in ("gzip", "identity", "chunked, gzip", "chunked, identity", "chunked,", "pigeons")]),
    *group(REFUSED, "no coding but chunked is known; 501 is what RFC 9112 6.1 suggests, 400 what framing gets here",
           [post(f"Transfer-Encoding: {coding}", body=CHUNKS) for coding in ("gzip, chunked", "identity, chunked")]),
    *group(REFUSED, "chunked comes once, by itself (RFC 9112 7): other servers may read this as something else",
           [post(f"Transfer-Encoding: {coding}", body=CHUNKS)
            for coding in ("chunked, chunked", ", chunked", '"chunked"', "chunked;q=1", "xchunked", "chunkedchunked",
                           "\x0bchunked", "chunked\x0b", "\0chunked", "")]),
    *group(REFUSED, "headers that come twice are one list",
           [post(CHUNKED, CHUNKED, body=CHUNKS), post("Transfer-Encoding: gzip", CHUNKED, body=CHUNKS),
            post(CHUNKED, "Transfer-Encoding: gzip", body=CHUNKS)]),
    *group(REFUSED, "HTTP/1.0 has no chunks: the framing is faulty (RFC 9112 6.1)",
           [old(CHUNKED, body=CHUNKS), old(CHUNKED, "Connection: keep-alive", body=CHUNKS)]),
]  # fmt: skip

CHUNK_SIZES = [
    *group(READ, "a size is hexadecimal digits, the last one zeros (RFC 9112 7.1)",
           [chunked(body) for body in (CHUNKS, b"0003\r\nabc\r\n0\r\n\r\n", b"3\r\nabc\r\n000\r\n\r\n",
                                       b"00000000000000000000003\r\nabc\r\n0\r\n\r\n",
                                       b"1\r\na\r\n02\r\nbc\r\n0\r\n\r\n")]),
    *group((b"/a 0123456789", FOLLOWED), "in either case",
           [chunked(size + b"\r\n0123456789\r\n0\r\n\r\n") for size in (b"a", b"A", b"0A")]),
    *group(SKIPPED, "a body may have no chunk but the last", [chunked(b"0\r\n\r\n")]),
    *group(REFUSED, "a size is nothing else; spaces behind it are sent by nobody and read in several ways",
           [chunked(size + b"\r\nabc\r\n0\r\n\r\n")
            for size in (b"0x3", b"+3", b"-3", b" 3", b"3 ", b"3\t", b"", b"g", b"3_0", b"3.0", b"3\0", b"3 a",
                         b"3 \n  ", b"3\r\r;", b"f" * 17, b"10000000000000003", b"9" * 100)]),
    *group(REFUSED, "lines of chunks end with CRLF (RFC 9112 7.1)",
           [chunked(body) for body in (b"3\nabc\r\n0\r\n\r\n", b"3\rabc\r\n0\r\n\r\n", b"3\r\r\nabc\r\n0\r\n\r\n",
                                       b"3\r\nabc\n0\r\n\r\n", b"3\r\nabc\r0\r\n\r\n", b"3\r\nabc0\r\n\r\n",
                                       b"3\r\nabc\r\n0\n\r\n", b"3\r\nabc\r\n0\r\n\n", b"3\r\nabc\r\n0\r\n\r")]),
    *group(REFUSED, "a chunk has the size that it says",
           [chunked(body) for body in (b"3\r\nabcd\r\n0\r\n\r\n", b"3\r\nab\r\n0\r\n\r\n", b"3\r\nabc__0\r\n\r\n",
                                       b"3\r\nabc\r_0\r\n\r\n", b"3\r\nabc_\n0\r\n\r\n", b"3\r\nabc\r\n")]),
    *group((413,), "chunks beyond the limit are refused when they come", [chunked(b"20000\r\n" + b"x" * 0x20000)]),
]  # fmt: skip

CHUNK_EXTENSIONS = [
    *group(READ, "extensions are ignored (RFC 9112 7.1.1)",
           [chunked(b"3;" + extension + b"\r\nabc\r\n0;x\r\n\r\n")
            for extension in (b"a", b"a=b", b'a="b c"', b'a="\\""', b"a=b;c;d=e", b'a="b;c"')]),
    *group(READ, "the parser is lenient: a name may be missing", [chunked(b"3;=\r\nabc\r\n0\r\n\r\n")]),
    *group(REFUSED, "the parser is stricter than RFC 9112 7.1.1: no white space, which nobody sends, around `;`",
           [chunked(size + b"\r\nabc\r\n0\r\n\r\n") for size in (b"3 ;a", b"3; a=b", b"3;a =b")]),
    *group(REFUSED, "an extension is a token and ends with CRLF: one that ends elsewhere for others smuggles a request",
           [chunked(size + b"\r\nabc\r\n0\r\n\r\n")
            for size in (b"3;", b'3;a="b', b"3;a\nb", b"3;\nxx", b"3;a\rb", b"3;a=\0", b"3;a=\xe4", b'3;a="\n"')]),
]  # fmt: skip

TRAILERS = [
    *group(READ, "trailers are read, and change nothing of the request (RFC 9112 7.1.2)",
           [chunked(b"3\r\nabc\r\n0\r\n" + trailer + b"\r\n\r\n")
            for trailer in (b"A: b", b"A: b\r\nC: d", b"Host: x", b"Expect: x",
                            b"Connection: upgrade\r\nUpgrade: x", b"Content-Encoding: gzip")]),
    *group((ABC,), "the parser heeds a trailer that closes the connection, which a server may do whenever it wants",
           [chunked(b"3\r\nabc\r\n0\r\nConnection: close\r\n\r\n")]),
    *group(REFUSED, "the parser refuses another framing behind the body",
           [chunked(b"3\r\nabc\r\n0\r\n" + trailer + b"\r\n\r\n") for trailer in (b"Transfer-Encoding: gzip",
           b"Content-Length: 9")]),
    *group(REFUSED, "trailers are headers as those of the head",
           [chunked(b"3\r\nabc\r\n0\r\n" + trailer + b"\r\n\r\n") for trailer in (b"A", b"A : b", b"A: b\r\n c",
           b"A: b\n", b": b")]),
]  # fmt: skip

REQUEST_LINES = [
    *group(SKIPPED, "methods of others are for the application to refuse",
           [line(f"{method} /a HTTP/1.1") for method in ("OPTIONS", "PATCH", "TRACE", "PURGE", "REPORT", "QUERY",
           "LINK")]),
    *group((b"* ", FOLLOWED),
           "OPTIONS * asks the server (RFC 9112 3.2.4); for other methods it is a path that nobody has",
           [line(f"{method} * HTTP/1.1") for method in ("OPTIONS", "GET", "M-SEARCH")]),
    *group(SKIPPED, "words may be apart by several spaces (RFC 9112 3)", [line("GET  /a HTTP/1.1"),
           line("GET /a  HTTP/1.1")]),
    *group(REFUSED, "methods have a case and end with a space; RFC 9110 9.1 suggests 501, but the parser cannot tell",
           [line(f"{method} HTTP/1.1") for method in ("get /a", "FOO /a", "GETS /a", "MKCOLA /a", "GET\t/a", " GET /a",
           "/a",
                                                      "GET", "GET\0/a", "A" * 300 + " /a", "DESCRIBE /a")]),
    *group(REFUSED, "a tunnel is not opened",
           [line(f"CONNECT {target}") for target in ("h:1 HTTP/1.1", "h:1 HTTP/1.0", "/a HTTP/1.1", "h HTTP/1.1")]),
    *group(REFUSED, "HTTP/1.1 and 1.0; RFC 9110 suggests 505 (15.6.6) and 1.2 as 1.1 (2.5), but the parser cannot tell",
           [line(f"GET /a{version}") for version in ("", " ", " HTTP/0.9", " HTTP/1.2", " HTTP/1.9", " HTTP/2.0",
           " HTTP/2",
                                                     " HTTP/3.0", " HTTP/5.6", " HTTP/1", " HTTP/1.", " HTTP/1.10",
                                                     " HTTP/01.1", " http/1.1", " HTTP/1,1", " HTTP /1.1", " HTTP/ 1.1",
                                                     " XHTTP/1.1", " ICE/1.0")]),
    *group(CLOSED, "the parser is lenient: protocols made of HTTP/1.0 count as that, and the connection ends",
           [line(text) for text in ("OPTIONS /a RTSP/1.0", "DESCRIBE /a RTSP/1.0", "SOURCE /a ICE/1.0")]),
    *group(REFUSED, "nothing follows the version (RFC 9112 3)",
           [line(f"GET /a HTTP/1.1{rest}") for rest in (" ", "\t", " x", "\0", "\r")]),
    *group(REFUSED, "HTTP/2 is not spoken", [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
           line("PRI * HTTP/1.1")]),
    *group(REFUSED, "this is another protocol, or none",
           [b"\x16\x03\x01\x00\xa5\x01\x00\x00", b"\0", b" ", b"<xml>", b"gibberish\r\n\r\n",
           b"HTTP/1.1 200 OK\r\n\r\n",
            b"\xef\xbb\xbf" + get(), b" " + get(), b"\0" + get()]),
]  # fmt: skip

TARGETS = [
    *group(SKIPPED, "a target has a path and a query, by itself or behind a host (RFC 9112 3.2)",
           targets("/a", "/a?b", "/a?b?c", "/a?", "http://h/a", "HTTP://h:1/a?b", "https://h/a", "http://[::1]:1/a",
                   "/%61", "http://other/a")),
    *group(SKIPPED, "the parser is lenient: schemes, users and fragments are none of this server's business",
           targets("ftp://h/a", "http://u:p@h/a", "/a?b#c")),
    *group((b"/ ", FOLLOWED), "a host alone has the path / (RFC 9112 3.2.1)", targets("/", "http://h", "http://h:1",
           "http://h?a")),
    *group(("/aä ".encode(), FOLLOWED), "paths are UTF-8", targets("/a%C3%A4", "/a%c3%a4")),
    *[Case(sent, (path.encode() + b" ", FOLLOWED),
           "paths are not changed but decoded: the application has none of these")
      for sent, path in zip(targets("//a", "/../a", "/./a", "/a%2fb", "/a%00", "/a%0d%0a", "/a#b", '/"|\\^`{}<>'),
                            ["//a", "/../a", "/./a", "/a/b", "/a\0", "/a\r\n", "/a#b", '/"|\\^`{}<>'], strict=True)],
    *group((400, FOLLOWED), "what cannot be decoded has no path, but an end",
           targets("/%", "/%f", "/%zz", "/%ff", "/%c3%28", "/%ed%a0%80", "http://h/%zz", "http://", "http:///a",
           "http://h:x/a",
                   "http://h:99999/a")),
    *group(REFUSED, "targets have no such characters (RFC 9112 3.2)",
           targets("/a b", "/\xe4", "/\xc3\xa4", "/\0", "/\x01", "/\x7f", "/a\tb", "/a\rb", "/a\nb")),
    *group(REFUSED, "these are none (RFC 9112 3.2)", targets("a", "?a", "h:80", "http:/a", "http://h#/a",
           "http://h\\a/b")),
    *group((b"/" + b"x" * 60_000 + b" ", FOLLOWED), "long targets are read (RFC 9112 3: at least 8,000 bytes)",
           targets("/" + "x" * 60_000)),
]  # fmt: skip

HOSTS = [
    *group(SKIPPED, "hosts, with or without a port, in any case (RFC 9110 7.2); whose they are is no matter",
           [raw("GET /a HTTP/1.1", f"{name}:{host}") for name, host in (
               ("Host", " h"), ("Host", "h"), ("host", " h:80"), ("HOST", " h: "), ("hOsT", " 127.0.0.1:1"), ("Host",
               " [::1]"),
               ("Host", " [::1]:80"), ("Host", " a_b.c-d"), ("Host", " %41"), ("Host", " h,h"), ("Host", " h \t"))]),
    *group(SKIPPED, "a target without a host has an empty one (RFC 9112 3.2)", [raw("GET /a HTTP/1.1", "Host:")]),
    *group(REFUSED, "HTTP/1.1 has a host, also where the target has one (RFC 9112 3.2)",
           [raw("GET /a HTTP/1.1"), raw("GET http://h/a HTTP/1.1"), raw("GET /a HTTP/1.1", "X-Host: h")]),
    *group(REFUSED, "and one only: servers may differ in which they heed (RFC 9112 3.2)",
           [raw(f"GET /a HTTP/1.{minor}", *hosts) for minor in (1, 0) for hosts in (
               ("Host: h", "Host: h"), ("Host: a", "Host: b"), ("Host: a", "Host:"), ("Host:", "Host: a"))]),
    *group(REFUSED, "hosts that are none (RFC 9112 3.2)",
           [raw("GET /a HTTP/1.1", f"Host: {host}")
            for host in ("a b", "a\tb", "a/b", "u@h", "http://h", "h?", "h#", "h:x", "h:1:2", "[::1", "::1", "\xe4",
            "h\x01", "h\0")]),
    *group(CLOSED, "HTTP/1.0 needs none", [raw("GET /a HTTP/1.0")]),
]  # fmt: skip

HEADERS = [
    *group(SKIPPED, "values may be empty, with white space around them, of any visible bytes (RFC 9112 5)",
           [get(header) for header in ("A:", "A: ", "A: \t \t ", "A:b", "A: b  c", "A: b\tc", "A: b \t", "A: \xe4\xff",
           "A: :",
                                       "!#$%&'*+-.^_`|~: b", "aaaaaaaaaaaaa:++++++++++")]),
    *group(REFUSED, "white space between name and colon has to be refused (RFC 9112 5.1)",
           [get(header) for header in ("A : b", "A\t: b", "Host : h", "Connection : close", "Content-Length : 3",
                                       "Content-Length\t: 3", "Transfer-Encoding : chunked")]),
    *group(REFUSED, "names are tokens (RFC 9110 5.1)",
           [get(header) for header in ("A", "A b", ": b", "=: b", "A b: c", "A@: b", "A\0: b", "A\1: b", "A\xe4: b",
           "A(: b",
                                       "A{}: b", 'A"b": c', "A/b: c", "Transfer Encoding: chunked",
                                       "Transfer-Encoding\0: chunked")]),
    *group(REFUSED, "values have no control characters (RFC 9110 5.5)",
           [get(f"A: {value}") for value in ("\0", "b\0c", "b\1c", "b\x08", "b\x0bc", "b\x0cc", "b\x7fc", "b\x1b")]),
    *group(REFUSED, "folded lines may be refused (RFC 9112 5.2)",
           [get(header) for header in ("A: b\r\n c", "A: b\r\n\tc", "A:\r\n b", "A: b\r\n ", "A: b\r\n \r\nC: d",
           "name\r\n : value",
                                       "Content-Length: 3\r\n 4", "Content-Length:\r\n 3",
                                       "Transfer-Encoding:\r\n chunked",
                                       "Transfer-Encoding: chunked\r\n  abc", "Connection: x,\r\n close")]),
    *group(REFUSED, "white space before the first header is refused or skipped (RFC 9112 2.2)",
           [raw("GET /a HTTP/1.1", header) for header in (" Host: h", "\tHost: h", " A: b\r\nHost: h", " ")]),
    *group(REFUSED, "lines end with CRLF: a bare CR has to be refused, a bare LF may be (RFC 9112 2.2)",
           [get(header) for header in ("A: b\rC: d", "A: b\nC: d", "A: b\r\r\nC: d", "A: b\n\rC: d", "A: b\n",
           "A:\rC: d", "A:\nC: d",
                                       "A: b\rTransfer-Encoding: chunked", "A: b\nTransfer-Encoding: chunked",
                                       "A:\rTransfer-Encoding: chunked", "A:\nTransfer-Encoding: chunked",
                                       "Content\rLength: 3",
                                       "A: b\nContent-Length: 3", "Connection: keep\ralive", "\rZ", "A: b\r\n\rX",
                                       "\rabc",
                                       "Connection\r\x1b5eep-Alive: x")]),
    *group(REFUSED, "in all places",
           [sent.replace(b"|", end) for end in (b"\n", b"\r", b"\r\r\n", b"\n\r")
            for sent in (b"GET /a HTTP/1.1|Host: h||", b"GET /a HTTP/1.1|Host: h\r\n\r\n",
            b"GET /a HTTP/1.1\r\nHost: h|\r\n",
                         b"GET /a HTTP/1.1\r\nHost: h||", b"GET /a|Host: h\r\n\r\n")]),
]  # fmt: skip

BLANK_LINES = [
    *group(SKIPPED, "empty lines before a request are skipped (RFC 9112 2.2); the parser takes a bare CR or LF for one",
           [lines + get() for lines in (b"\r\n", b"\r\n\r\n\r\n", b"\n", b"\r")]),
    *group(SKIPPED, "old clients send one behind a body", [get() + b"\r\n", get() + b"\n"]),
    *group(READ, "old clients send one behind a body", [post(LENGTH, body=b"abc\r\n"), post(CHUNKED,
           body=CHUNKS + b"\r\n")]),
    *group((FOLLOWED,), "lines alone are no request", [b"\r\n", b"\n\r\n"]),
]  # fmt: skip

CONNECTIONS = [
    *group(CLOSED, "close closes, in any case, place and company (RFC 9112 9.3); what follows is not read (9.6)",
           [get(header) for header in ("Connection: close", "Connection:close", "Connection: Close",
           "Connection: CLOSE\t",
                                       "Connection: close, x", "Connection: x, close", "Connection: close,",
                                       "Connection: ,close",
                                       "Connection: keep-alive, close", "Connection: close, keep-alive",
                                       "Connection: close\r\nConnection: keep-alive",
                                       "Connection: keep-alive\r\nConnection: close",
                                       "Connection: upgrade, close\r\nUpgrade: x",
                                       "Connection: close, token, upgrade, keep-alive")]),
    *group(CLOSED, "nothing that follows close is read, whatever it is",
           [get("Connection: close", body=body) for body in (b"gibberish", b"\0", b"\r\n", get())]),
    *group(SKIPPED, "HTTP/1.1 keeps a connection unless it is closed (RFC 9112 9.3)",
           [get(header) for header in ("Connection: keep-alive", "Connection: x", "Connection:", "Connection: closed",
                                       'Connection: "close"', "Connection: x close", "Keep-Alive: 300",
                                       "Close: close")]),
    *group(CLOSED, "the parser heeds the header that is none, which a server may (RFC 9112 9.3)",
           [get("Proxy-Connection: close")]),
    *group(CLOSED,
           "HTTP/1.0 closes unless it asks otherwise, and nothing but keep-alive; no proxy may have passed it on",
           [raw("GET /a HTTP/1.0", *headers) for headers in (
               (), ("Connection: close",), ("Connection: x",), ("Keep-Alive: 300",), ("Proxy-Connection: keep-alive",),
               ("Connection: keep-alive, close",), ("Connection: keep-alive", "Connection: close"))]),
    *group(SKIPPED, "HTTP/1.0 keeps a connection with keep-alive, in any case (RFC 9112 9.3)",
           [raw("GET /a HTTP/1.0", f"Connection: {option}") for option in ("keep-alive", "Keep-Alive", "KEEP-ALIVE ")]),
    *group((ABC,), "HTTP/1.0 has bodies with a length", [old(LENGTH, body=b"abc"), old("conTENT-Length: 3",
           body=b"abc")]),
    *group(READ, "HTTP/1.0 has bodies with a length", [old(LENGTH, "Connection: keep-alive", body=b"abc")]),
    *group(CLOSED, "HTTP/1.0 has none without (RFC 9112 6.3)", [old(body=b"abc")]),
]  # fmt: skip

UPGRADES = [
    *group(READ, "a server may stay with HTTP/1.1 (RFC 9110 7.8), as Java's and curl's clients expect of it",
           [post(length, *headers, body=body) for length, body in ((LENGTH, b"abc"), (CHUNKED, CHUNKS)) for headers in (
               ("Upgrade: h2c",), ("Connection: upgrade",), ("Connection: upgrade", "Upgrade: h2c"),
               ("Connection: upgrade", "Upgrade:"),
               ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"),
               ("Connection: Upgrade", "Upgrade: websocket", "A: b", "A: c"), ("Connection: upgrade", "Upgrade: a, b"),
               ("Connection: upgrade", "Upgrade: a", "Upgrade: b"), ("Connection: keep-alive, upgrade",
               "Upgrade: x"))]),
    *group(SKIPPED, "without a body as well", [get("Connection: Upgrade", "Upgrade: websocket",
           "Sec-WebSocket-Key: x")]),
    *group((ABC,), "HTTP/1.0 has no upgrade (RFC 9110 7.8)", [old("Connection: upgrade", "Upgrade: x", LENGTH,
           body=b"abc")]),
    *group(REFUSED, "framing is checked all the same",
           [post("Connection: upgrade", "Upgrade: x", *headers)
            for headers in ((LENGTH, CHUNKED), (CHUNKED, LENGTH), (LENGTH, LENGTH), ("Transfer-Encoding: gzip",),
            ("Content-Length : 3",))]),
]  # fmt: skip

EXPECTATIONS = [
    *group(READ, "who expects 100-continue may send the body at once (RFC 9110 10.1.1)",
           [post(LENGTH, f"Expect:{expectation}") for expectation in (" 100-continue", "100-Continue",
           " 100-continue \t")]),
    *group(SKIPPED, "without a body there is nothing to wait for (RFC 9110 10.1.1)", [get("Expect: 100-continue")]),
    *group((417,), "nothing else may be expected (RFC 9110 10.1.1); nobody knows whether the body comes",
           [post(LENGTH, f"Expect: {expectation}") for expectation in ("x", "", "100", "100-continue, x",
           "100-continue;q=1")]),
    *group((417,), "nor the same twice", [post(LENGTH, "Expect: 100-continue", "Expect: 100-continue")]),
    *group((ABC,), "HTTP/1.0 expects nothing (RFC 9110 10.1.1)",
           [old(LENGTH, f"Expect: {expectation}", body=b"abc") for expectation in ("100-continue", "x")]),
]  # fmt: skip

PIPELINES = [
    *group((ABC, EMPTY, ABC, FOLLOWED), "requests behind each other are answered in their order (RFC 9112 9.3.2)",
           [post(LENGTH) + get() + chunked(CHUNKS)]),
    *group((EMPTY, EMPTY), "up to one that closes the connection", [get() + get("Connection: close") + get()]),
    *group((EMPTY, 400), "or that is refused", [get() + post(LENGTH, CHUNKED, body=CHUNKS) + get()]),
    *group((EMPTY, 400), "also behind one that wanted another protocol",
           [get("Connection: upgrade", "Upgrade: x") + raw("GET /a HTTP/1.1", *headers) for headers in (
               (), ("Host: h", "Content-Length: -1"))]),
    *group(REFUSED, "what a refused request smuggles is not read",
           [post(LENGTH, CHUNKED, body=b"0\r\n\r\n" + get()), post("Content-Length : 3", body=get()),
            chunked(b"3;\nxx\r\nabc\r\n0\r\n\r\n" + get()), get("A: b\nContent-Length: 23", body=get())]),
]  # fmt: skip

CASES = [
    *LENGTHS, *CODINGS, *CHUNK_SIZES, *CHUNK_EXTENSIONS, *TRAILERS, *REQUEST_LINES, *TARGETS, *HOSTS, *HEADERS,
           *BLANK_LINES,
    *CONNECTIONS, *UPGRADES, *EXPECTATIONS, *PIPELINES,
]  # fmt: skip
