# An SMTP server on a Unix socket that accepts messages after STARTTLS only, and appends them to a file.
import ssl
import sys
import threading

from aiosmtpd.controller import UnixSocketController

directory = sys.argv[1]


class Keeper:
    async def handle_DATA(self, server, session, envelope):
        with open(directory + '/messages', 'ab') as messages:
            messages.write(envelope.content)
        return '250 kept'


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(directory + '/smtp.pem', directory + '/smtp.key')
controller = UnixSocketController(
    Keeper(), unix_socket=directory + '/smtp.sock', tls_context=context, require_starttls=True)
controller.start()
threading.Event().wait()
