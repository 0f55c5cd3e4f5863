"""Makes one call of each kind to the server at the given address, and prints what comes of it, a line each."""

import sys
import threading

import grpc

OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),
)
channel = grpc.insecure_channel(sys.argv[1], options=OPTIONS)


def tell(name, call):
    try:
        told = call()
    except grpc.RpcError as error:
        told = "%s %r" % (error.code().name, error.details())
    print(name + ":", told, flush=True)


def unary(method, request, **more):
    return channel.unary_unary("/tests.Echo/" + method)(request, timeout=20, **more)


def with_metadata():
    stub = channel.unary_unary("/tests.Echo/Unary")
    answer, call = stub.with_call(b"hello", timeout=20, metadata=(("x-sent", "value"),))
    initial = [item for item in call.initial_metadata() if item.key.startswith("x-")]
    trailing = [tuple(item) for item in call.trailing_metadata() if item.key.startswith("x-")]
    return answer, [tuple(item) for item in initial], sorted(trailing), call.code().name


def in_turn():
    """Each message is sent when the answer to the one before it is there."""
    answered = threading.Semaphore(1)

    def requests():
        for number in range(5):
            answered.acquire()
            yield b"%d" % number

    answers = []
    for answer in channel.stream_stream("/tests.Echo/Both")(requests(), timeout=20):
        answers.append(answer)
        answered.release()
    return answers


def late():
    answers = []
    try:
        for answer in channel.unary_stream("/tests.Echo/FailsLate")(b"", timeout=20):
            answers.append(answer)
    except grpc.RpcError as error:
        return answers, error.code().name, error.details()
    return answers


def many():
    """Many calls at a time, beside one whose answers nobody reads. Tells how many connections the server has seen."""
    peer = channel.unary_unary("/tests.Echo/Peer")
    peers = {peer(b"", timeout=20)}
    unread = channel.unary_stream("/tests.Echo/ToClient")(b"1000000", timeout=60)
    next(unread)
    both = channel.stream_stream("/tests.Echo/Both")((b"%d" % n for n in range(1000)), timeout=20)
    calls = [peer.future(b"", timeout=20) for _ in range(60)]
    large = [channel.unary_unary("/tests.Echo/Large").future(b"100000", timeout=20) for _ in range(20)]
    peers.update(call.result() for call in calls)
    lengths = {len(call.result()) for call in large}
    answers = sum(1 for _ in both)
    unread.cancel()
    peers.add(peer(b"", timeout=20))
    return len(peers), lengths, answers


if len(sys.argv) > 2:
    tell("many", many)
    sys.exit()

tell("unary", with_metadata)
tell("empty", lambda: unary("Unary", b""))
tell("large answer", lambda: len(unary("Large", b"3000000")))
tell("large request", lambda: len(unary("Unary", b"y" * 3000000)))
tell("to the client", lambda: list(channel.unary_stream("/tests.Echo/ToClient")(b"100", timeout=20))[-1])
tell("nothing to the client", lambda: list(channel.unary_stream("/tests.Echo/ToClient")(b"0", timeout=20)))
tell("from the client", lambda: channel.stream_unary("/tests.Echo/FromClient")((b"z" * 10000 for _ in range(100)), timeout=20))
tell("nothing from the client", lambda: channel.stream_unary("/tests.Echo/FromClient")(iter(()), timeout=20))
tell("both", lambda: list(channel.stream_stream("/tests.Echo/Both")((b"%d" % n for n in range(100)), timeout=20))[-1])
tell("both in turn", in_turn)
tell("error", lambda: unary("Fails", b"this"))
tell("late error", late)
tell("no such method", lambda: unary("Missing", b""))
tell("deadline", lambda: channel.unary_unary("/tests.Echo/Never")(b"", timeout=0.3))
tell("after the deadline", lambda: unary("Unary", b"still there"))
tell("refused", lambda: channel.unary_unary("/refused/Any")(b"", timeout=20))
tell("down", lambda: channel.unary_unary("/down/Any")(b"", timeout=20))
tell("own status", lambda: channel.unary_unary("/status/Any")(b"", timeout=20))
