// A kilobyte for every request. A WebSocket is opened and then left alone.
const crypto = require('crypto');
const http = require('http');

const content = 'abcdefghijklmnopqrstuvwxyz'.repeat(40).slice(0, 1024);

const server = http.createServer((request, response) => {
  response.writeHead(200, { 'Content-Type': 'text/plain', 'Content-Length': content.length });
  response.end(content);
});

server.on('upgrade', (request, socket) => {
  // RFC 6455, section 4.2.2.
  const key = (request.headers['sec-websocket-key'] || '') + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
  const accept = crypto.createHash('sha1').update(key).digest('base64');
  socket.on('error', () => socket.destroy());
  // Node.js reads nothing that nobody asks for, and leaves its half open. Then clients that left would use up its files.
  socket.resume();
  socket.on('end', () => socket.end());
  socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
    `Sec-WebSocket-Accept: ${accept}\r\n\r\n`);
});

server.keepAliveTimeout = 300000;
server.listen({{port}}, '127.0.0.1', 4096);
