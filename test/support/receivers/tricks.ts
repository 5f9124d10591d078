import { randomBytes } from "node:crypto";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { gzipSync } from "node:zlib";

const line = "\r\n";
const okHead = ["HTTP/1.1 200 OK", "Content-Type: text/plain"].join(line) + line;
const chunked = `${okHead}Transfer-Encoding: chunked${line}${line}`;
const hints = `HTTP/1.1 103 Early Hints${line}Link: </style.css>; rel=preload${line}${line}`;

const dripMs = 20;
const gibibyte = 2 ** 30;
const piece = Buffer.alloc(65_536, "x");

/** Receivers that use the raw socket of a request instead of a response. */
export const tricks = {
  /** Never answers. */
  hang: () => {},
  /** Closes the connection without an error. */
  close: (socket: Socket) => void socket.end(),
  reset,
  "reset in the head": (socket: Socket) => writeThenReset(socket, "HTTP/1.1 200 OK\r\nContent-"),
  "reset in the body": (socket: Socket) => writeThenReset(socket, `${okHead}Content-Length: 100${line}${line}begun`),
  /** Sends a status in time, then endless headers byte by byte. */
  "drip of headers": (socket: Socket) => {
    socket.write(okHead);
    drip(socket, "X-Slow: a\r\n");
  },
  "drip of body": (socket: Socket) => {
    socket.write(`${okHead}Content-Length: 1000000${line}${line}`);
    drip(socket, "x");
  },
  /** Sends data as fast as it is read. */
  "endless body": (socket: Socket) => {
    socket.write(chunked);
    flood(socket, Buffer.concat([Buffer.from(`10000${line}`), piece, Buffer.from(line)]));
  },
  /** Sends chunk headers without any byte of a body. */
  "endless chunk head": (socket: Socket) => {
    socket.write(`${chunked}1;`);
    flood(socket, piece);
  },
  "body of 1 GiB": (socket: Socket) => {
    socket.write(`${okHead}Content-Length: ${gibibyte}${line}${line}`);
    flood(socket, piece);
  },
  "100,000 headers": (socket: Socket) => {
    socket.write(okHead + Array.from({ length: 100_000 }, (_, index) => `X-${index}: y${line}`).join("") + line);
  },
  "one header of 1 MiB": (socket: Socket) => {
    socket.write(`${okHead}X-Long: ${"y".repeat(2 ** 20)}${line}${line}`);
  },
  "no status line": (socket: Socket) => void socket.end("<html>this is no HTTP</html>\n"),
  "random bytes": (socket: Socket) => void socket.end(randomBytes(4_096)),
  /** Answers with a switch of protocols. */
  "101 with an upgrade": (socket: Socket) => {
    socket.write(`HTTP/1.1 101 Switching Protocols${line}Connection: upgrade${line}Upgrade: websocket${line}${line}`);
  },
  "101 without an upgrade": (socket: Socket) => {
    socket.write(`HTTP/1.1 101 Switching Protocols${line}${line}`);
  },
  "103, then 200": (socket: Socket) => {
    socket.write(`${hints}${hints}${okHead}Content-Length: 4${line}${line}fine`);
  },
  "103 only": (socket: Socket) => void socket.write(hints),
  "endless 103": (socket: Socket) => flood(socket, Buffer.from(hints.repeat(100))),
  "two contradicting lengths": (socket: Socket) => {
    socket.write(`${okHead}Content-Length: 2${line}Content-Length: 3${line}${line}abc`);
  },
  "status 000": (socket: Socket) => void socket.write(`HTTP/1.1 000 None${line}Content-Length: 0${line}${line}`),
  /** Sends an endless body, compressed a thousandfold. */
  "gzip bomb": (socket: Socket) => {
    socket.write(`${okHead}Content-Encoding: gzip${line}Connection: close${line}${line}`);
    flood(socket, gzipSync(Buffer.alloc(2 ** 20)));
  },
  /** Sends a valid response, then unsolicited bytes as long as the connection is open. */
  "flood after the answer": (socket: Socket) => {
    socket.write(`${okHead}Content-Length: 4${line}${line}fine`);
    setTimeout(() => flood(socket, piece), dripMs);
  },
} as const satisfies Record<string, (socket: Socket) => void>;

export type Trick = keyof typeof tricks;

/** Resets the connection; under TLS, where Node cannot, closes it without close_notify. */
export function reset(socket: Socket): void {
  if (socket instanceof TLSSocket) socket.destroy();
  else socket.resetAndDestroy();
}

function writeThenReset(socket: Socket, text: string): void {
  // Without a delay the reset would discard the text.
  socket.write(text, () => setTimeout(() => reset(socket), dripMs));
}

function drip(socket: Socket, text: string): void {
  let at = 0;
  const timer = setInterval(() => {
    socket.write(text[at % text.length] ?? "");
    at += 1;
  }, dripMs);
  socket.on("close", () => clearInterval(timer));
}

function flood(socket: Socket, bytes: Buffer): void {
  const more = (): void => {
    if (socket.destroyed) return;
    if (socket.write(bytes)) setImmediate(more);
    else socket.once("drain", more);
  };
  more();
}
