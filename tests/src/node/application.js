// A small application for the tests: what sites run behind a proxy, in plain Node.js.
'use strict';

const crypto = require('crypto');
const http = require('http');

const WEBSOCKET_GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
const CONTINUATION = 0, TEXT = 1, BINARY = 2, CLOSE = 8, PING = 9, PONG = 10;

let connections = 0;
let lastCount = 0;
const listeners = new Set();
const sockets = new Set();

const server = http.createServer((request, response) => {
  const url = new URL(request.url, 'http://localhost');
  switch (url.pathname) {
    case '/count':
      return response.end(JSON.stringify({ connections, events: listeners.size, sockets: sockets.size }));
    case '/last':
      return response.end(`${lastCount}`);
    case '/fields':
      return response.end(JSON.stringify(request.headers));
    case '/upload':
      return upload(request, response);
    case '/echo':
      return request.pipe(response);
    case '/chunks':
      return chunks(response, Number(url.searchParams.get('count')));
    case '/events':
      return events(url, response);
    case '/tell':
      for (const listener of listeners) listener.write(`data: ${url.searchParams.get('text')}\n\n`);
      return response.end('told');
    default:
      response.statusCode = 404;
      return response.end('nothing here');
  }
});

server.keepAliveTimeout = 60_000;
server.on('connection', () => { connections += 1; });
server.on('upgrade', (request, socket, rest) => {
  if (request.headers.upgrade.toLowerCase() !== 'websocket') return socket.destroy();
  const digest = crypto.createHash('sha1').update(request.headers['sec-websocket-key'] + WEBSOCKET_GUID);
  socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
    `Sec-WebSocket-Accept: ${digest.digest('base64')}\r\n\r\n`);
  if (request.url === '/last' || request.url === '/first') return half(socket, rest, request.url === '/first');
  speak(socket, rest);
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));

// Ends its side first or last, and notes how many bytes the client sent until its end.
function half(socket, rest, isFirst) {
  let count = rest.length;
  if (isFirst) socket.end('first');
  socket.on('data', (bytes) => { count += bytes.length; });
  socket.on('end', () => {
    lastCount = count;
    if (!isFirst) socket.end(`${count} bytes`);
  });
  socket.on('error', () => {});
}

// Answers with the length and a checksum of what was sent.
function upload(request, response) {
  let length = 0, sum = 0;
  request.on('data', (bytes) => {
    length += bytes.length;
    for (const byte of bytes) sum = (Math.imul(sum, 31) + byte) >>> 0;
  });
  request.on('end', () => response.end(`${length} ${sum}`));
}

function chunks(response, count) {
  response.setHeader('Trailer', 'X-Count');
  for (let number = 1; number <= count; number += 1) response.write(`chunk ${number}\n`);
  response.addTrailers({ 'X-Count': count });
  response.end();
}

// Server-sent events: each message goes to all listeners.
function events(url, response) {
  response.setHeader('Content-Type', 'text/event-stream');
  if (url.searchParams.has('unbuffered')) response.setHeader('X-Accel-Buffering', 'no');
  response.write(': welcome\n\n');
  listeners.add(response);
  response.on('close', () => listeners.delete(response));
}

// The server's side of a WebSocket: messages come back as they were.
function speak(socket, rest) {
  let input = rest, message = [], kind = TEXT;
  sockets.add(socket);
  socket.on('close', () => sockets.delete(socket));
  socket.on('error', () => socket.destroy());
  socket.on('end', () => socket.end());
  socket.on('data', (bytes) => {
    input = Buffer.concat([input, bytes]);
    take();
  });
  take();

  function take() {
    for (let frame = decode(input); frame !== null; frame = decode(input)) {
      input = input.subarray(frame.size);
      answer(frame);
    }
  }

  function answer({ opcode, last, payload }) {
    if (opcode === PING) return socket.write(encode(PONG, payload));
    if (opcode === CLOSE) return socket.end(encode(CLOSE, payload));
    if (opcode === PONG) return undefined;
    if (opcode !== CONTINUATION) [message, kind] = [[], opcode];
    message.push(payload);
    if (!last) return undefined;
    const whole = Buffer.concat(message);
    const text = kind === TEXT ? whole.toString() : '';
    if (text === 'please close') return socket.end(encode(CLOSE, Buffer.from([3, 232])));
    if (text === 'please drop') return socket.destroy();
    return socket.write(encode(kind, whole));
  }
}

// The first frame of the input (RFC 6455, section 5.2), or null while it is not whole. Clients mask theirs.
function decode(input) {
  if (input.length < 2) return null;
  let length = input[1] & 127, at = 2;
  if (length === 126) {
    if (input.length < 4) return null;
    [length, at] = [input.readUInt16BE(2), 4];
  } else if (length === 127) {
    if (input.length < 10) return null;
    [length, at] = [Number(input.readBigUInt64BE(2)), 10];
  }
  if (input.length < at + 4 + length) return null;
  const mask = input.subarray(at, at + 4);
  const payload = Buffer.from(input.subarray(at + 4, at + 4 + length));
  for (let index = 0; index < length; index += 1) payload[index] ^= mask[index & 3];
  return { opcode: input[0] & 15, last: (input[0] & 128) !== 0, payload, size: at + 4 + length };
}

function encode(opcode, payload) {
  const length = payload.length;
  let head;
  if (length < 126) {
    head = Buffer.from([128 | opcode, length]);
  } else if (length < 65536) {
    head = Buffer.from([128 | opcode, 126, length >> 8, length & 255]);
  } else {
    head = Buffer.alloc(10);
    head[0] = 128 | opcode;
    head[1] = 127;
    head.writeBigUInt64BE(BigInt(length), 2);
  }
  return Buffer.concat([head, payload]);
}
