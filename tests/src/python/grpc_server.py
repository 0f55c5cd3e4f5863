"""A gRPC server whose messages are plain bytes. Prints its port."""

import sys
from concurrent import futures

import grpc


def unary(request, context):
    metadata = dict(context.invocation_metadata())
    context.send_initial_metadata((("x-initial", metadata.get("x-sent", "none")),))
    context.set_trailing_metadata((("x-trailing", "there"), ("x-bin", b"\x00\xff")))
    return b"unary " + request


def large(request, context):
    return b"x" * int(request)


def to_client(request, context):
    for number in range(int(request)):
        yield b"message %d" % number


def from_client(requests, context):
    count, length = 0, 0
    for request in requests:
        count, length = count + 1, length + len(request)
    return b"%d messages, %d bytes" % (count, length)


def both(requests, context):
    for request in requests:
        yield b"echo " + request


def fails(request, context):
    context.abort(grpc.StatusCode.INVALID_ARGUMENT, "wrong: " + request.decode() + " ä%")


def fails_late(request, context):
    yield b"first"
    context.abort(grpc.StatusCode.DATA_LOSS, "late")


def never(request, context):
    context.add_callback(lambda: None)
    while context.is_active():
        context.time_remaining()
        futures.thread.threading.Event().wait(0.01)
    return b""


def peer(request, context):
    return context.peer().encode()


METHODS = {
    "Peer": grpc.unary_unary_rpc_method_handler(peer),
    "Unary": grpc.unary_unary_rpc_method_handler(unary),
    "Large": grpc.unary_unary_rpc_method_handler(large),
    "ToClient": grpc.unary_stream_rpc_method_handler(to_client),
    "FromClient": grpc.stream_unary_rpc_method_handler(from_client),
    "Both": grpc.stream_stream_rpc_method_handler(both),
    "Fails": grpc.unary_unary_rpc_method_handler(fails),
    "FailsLate": grpc.unary_stream_rpc_method_handler(fails_late),
    "Never": grpc.unary_unary_rpc_method_handler(never),
}

UNLIMITED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))

server = grpc.server(futures.ThreadPoolExecutor(max_workers=16), options=UNLIMITED)
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("tests.Echo", METHODS),))
if len(sys.argv) > 1:
    with open(sys.argv[1], "rb") as certificate, open(sys.argv[2], "rb") as key:
        credentials = grpc.ssl_server_credentials(((key.read(), certificate.read()),))
    port = server.add_secure_port("127.0.0.1:0", credentials)
else:
    port = server.add_insecure_port("127.0.0.1:0")
server.start()
print(port, flush=True)
server.wait_for_termination()
