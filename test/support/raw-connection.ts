import { connect, type Socket } from "node:net";

/** A client that sends and receives raw HTTP bytes, for cases that HTTP libraries do not allow or show. */
export interface RawConnection {
  send(text: string | Uint8Array): void;
  /** Everything received so far, as latin-1 text: one character per byte. */
  readonly received: string;
  /** Resolves when the received text matches; rejects if the server closes before. */
  until(pattern: RegExp | string | ((received: string) => boolean)): Promise<string>;
  /** Resolves with the received text when the server has closed. */
  closed(): Promise<string>;
  pause(): void;
  resume(): void;
  /** Closes immediately, like a client that disconnects. */
  destroy(): void;
  readonly socket: Socket;
}

/** Connects to `http://host:port`. */
export async function connectRaw(base: string): Promise<RawConnection> {
  const { hostname, port } = new URL(base);
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
  let received = "";
  let isClosed = false;
  const waiting = new Set<() => void>();
  const wake = (): void => {
    for (const look of waiting) look();
  };
  socket.setEncoding("latin1");
  socket.on("data", (text: string) => {
    received += text;
    wake();
  });
  socket.on("end", () => socket.end());
  socket.on("close", () => {
    isClosed = true;
    wake();
  });
  // These tests treat a reset like any other end.
  socket.on("error", () => {});
  await new Promise<void>((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("error", reject);
  });

  function when(isDone: () => boolean, isHopeless: () => boolean): Promise<string> {
    return new Promise((resolve, reject) => {
      const look = (): void => {
        if (isDone()) resolve(received);
        else if (isHopeless()) reject(new Error(`the connection closed after ${JSON.stringify(received.slice(-500))}`));
        else return;
        waiting.delete(look);
      };
      waiting.add(look);
      look();
    });
  }

  return {
    send: (text) => void socket.write(text),
    get received() {
      return received;
    },
    until: (pattern) =>
      when(
        () => {
          if (typeof pattern === "function") return pattern(received);
          return typeof pattern === "string" ? received.includes(pattern) : pattern.test(received);
        },
        () => isClosed,
      ),
    closed: () =>
      when(
        () => isClosed,
        () => false,
      ),
    pause: () => void socket.pause(),
    resume: () => void socket.resume(),
    destroy: () => void socket.destroy(),
    socket,
  };
}

export interface RawAnswer {
  readonly status: number;
  /** Headers by lower-case name; of a repeated header the last one. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Parses one response; a chunked body is joined. */
export function parseAnswer(raw: string): RawAnswer {
  const end = raw.indexOf("\r\n\r\n");
  const [statusLine = "", ...lines] = raw.slice(0, end).split("\r\n");
  const headers = Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 1).trim()]),
  );
  const rest = raw.slice(end + 4);
  return {
    status: Number(statusLine.split(" ")[1]),
    headers,
    body: headers["transfer-encoding"] === "chunked" ? unchunked(rest) : rest,
  };
}

function unchunked(text: string): string {
  let body = "";
  let at = 0;
  for (;;) {
    const lineEnd = text.indexOf("\r\n", at);
    const size = Number.parseInt(text.slice(at, lineEnd), 16);
    if (lineEnd === -1 || !(size > 0)) return body;
    body += text.slice(lineEnd + 2, lineEnd + 2 + size);
    at = lineEnd + 2 + size + 2;
  }
}

/** Text of a POST with a JSON body. */
export function postText(path: string, credential: string, body: string, headers: readonly string[] = []): string {
  return [
    `POST ${path} HTTP/1.1`,
    "Host: localhost",
    `Authorization: ${credential}`,
    "Content-Type: application/json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    ...headers,
    "",
    body,
  ].join("\r\n");
}
