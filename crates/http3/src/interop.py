"""The QPACK of LiteSpeed (pylsqpack), asked by lines: a command and its arguments, bytes in hexadecimal digits."""

import sys

import pylsqpack

encoder = pylsqpack.Encoder()
decoder = pylsqpack.Decoder(0, 0)


def field(text):
    name, value = text.split(":")
    return bytes.fromhex(name), bytes.fromhex(value)


for line in sys.stdin:
    command, *arguments = line.split()
    if command == "settings":
        answer = encoder.apply_settings(int(arguments[0]), int(arguments[1])).hex()
    elif command == "encode":
        instructions, section = encoder.encode(int(arguments[0]), [field(text) for text in arguments[1:]])
        answer = instructions.hex() + "," + section.hex()
    elif command == "feedback":
        encoder.feed_decoder(bytes.fromhex(arguments[0]))
        answer = ""
    else:
        _, fields = decoder.feed_header(0, bytes.fromhex(arguments[0]))
        answer = " ".join(name.hex() + ":" + value.hex() for name, value in fields)
    print(answer, flush=True)
