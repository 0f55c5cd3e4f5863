# An SCGI server of a thread a connection, which prints its port and runs a WSGI application.
import importlib.util
import io
import socketserver
import sys


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        digits = b""
        while (byte := self.rfile.read(1)) not in (b":", b""):
            digits += byte
        if not digits:
            return
        block = self.rfile.read(int(digits))
        assert self.rfile.read(1) == b","
        parts = block.split(b"\0")[:-1]
        environ = {name.decode("latin-1"): value.decode("latin-1") for name, value in zip(parts[::2], parts[1::2])}
        assert parts[0] == b"CONTENT_LENGTH" and environ["SCGI"] == "1"
        environ["wsgi.input"] = io.BytesIO(self.rfile.read(int(environ["CONTENT_LENGTH"])))

        def start_response(status, headers):
            fields = "".join("%s: %s\r\n" % field for field in headers)
            self.wfile.write(("Status: %s\r\n%s\r\n" % (status, fields)).encode("latin-1"))

        for piece in application(environ, start_response):
            self.wfile.write(piece)


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128


specification = importlib.util.spec_from_file_location("application", sys.argv[1])
module = importlib.util.module_from_spec(specification)
specification.loader.exec_module(module)
application = module.application
with Server(("127.0.0.1", 0), Handler) as server:
    print(server.server_address[1], flush=True)
    server.serve_forever()
