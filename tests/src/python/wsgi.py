# An application for uWSGI: it shows its environment, sends back what it got, and streams.
import hashlib


def application(environ, start_response):
    path = environ["PATH_INFO"]
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    headers = [("Content-Type", "text/plain"), ("X-Application", "uWSGI")]
    if path == "/missing":
        start_response("404 Not Here", headers)
        return [b"missing\n"]
    if path == "/moved":
        start_response("302 Found", headers + [("Location", "/there")])
        return [b""]
    if path == "/empty":
        start_response("204 No Content", headers)
        return []
    if path == "/large":
        start_response("200 OK", headers)
        return (b"%08d\n" % number * 100 for number in range(2000))
    if path == "/sized":
        start_response("200 OK", headers + [("Content-Length", "6")])
        return [b"sized\n"]
    names = ["REQUEST_METHOD", "QUERY_STRING", "CONTENT_LENGTH", "HTTP_X_ID", "HTTP_COOKIE", "HTTP_HOST"]
    lines = ["%s=%s" % (name, environ.get(name, "-")) for name in names]
    lines.append("body=%d %s" % (len(body), hashlib.sha256(body).hexdigest()))
    start_response("200 OK", headers)
    return ["\n".join(lines).encode() + b"\n"]
