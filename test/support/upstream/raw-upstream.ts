import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer, type TlsOptions } from "node:tls";

/** A request as the server received it. */
export interface RawRequest {
  readonly method: string;
  readonly path: string;
  /** Headers by lower-case name. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Writes any bytes to the connection, also bytes that are not HTTP. */
export type RawAnswer = (socket: Socket, request: RawRequest) => void;

/** A TCP server that reads requests and answers with bytes, for answers that no HTTP library would send. */
export class RawUpstream {
  readonly requests: RawRequest[] = [];
  /** Open connections. */
  readonly sockets = new Set<Socket>();
  answer: RawAnswer;
  readonly #server: Server;
  readonly #scheme: string;

  private constructor(answer: RawAnswer, tls: TlsOptions | null) {
    this.answer = answer;
    this.#scheme = tls === null ? "http" : "https";
    this.#server = tls === null ? createServer() : createTlsServer(tls);
    this.#server.on(tls === null ? "connection" : "secureConnection", (socket: Socket) => this.#serve(socket));
    // The client may reject the certificate.
    this.#server.on("tlsClientError", () => {});
  }

  static async start(answer: RawAnswer, tls: TlsOptions | null = null): Promise<RawUpstream> {
    const upstream = new RawUpstream(answer, tls);
    upstream.#server.listen(0, "127.0.0.1");
    await once(upstream.#server, "listening");
    return upstream;
  }

  /** Whether every connection with a request is closed. Others are ignored: undici opens a new one after an abort. */
  get isIdle(): boolean {
    return [...this.sockets].every(({ bytesRead }) => bytesRead === 0);
  }

  /** Base URL of its API. */
  get url(): string {
    return `${this.#scheme}://127.0.0.1:${this.port}/v1`;
  }

  get port(): number {
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("the server does not listen");
    return address.port;
  }

  async close(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    const closed = once(this.#server, "close");
    this.#server.close();
    await closed;
  }

  #serve(socket: Socket): void {
    this.sockets.add(socket);
    socket.setNoDelay(true);
    socket.on("close", () => this.sockets.delete(socket));
    // Tests let either side reset connections.
    socket.on("error", () => {});
    let received = Buffer.alloc(0);
    socket.on("data", (chunk: Buffer) => {
      // As a server that has closed the connection: the client repeats a request that it sent before it saw the end.
      if (socket.writableEnded) return;
      received = Buffer.concat([received, chunk]);
      for (let parsed = parseRequest(received); parsed !== null; parsed = parseRequest(received)) {
        received = received.subarray(parsed.length);
        this.requests.push(parsed.request);
        this.answer(socket, parsed.request);
      }
    });
  }
}

function parseRequest(bytes: Buffer): { readonly request: RawRequest; readonly length: number } | null {
  const end = bytes.indexOf("\r\n\r\n");
  if (end === -1) return null;
  const [line = "", ...lines] = bytes.toString("latin1", 0, end).split("\r\n");
  const [method = "", path = ""] = line.split(" ");
  const headers = Object.fromEntries(
    lines.map((header) => [
      header.slice(0, header.indexOf(":")).toLowerCase(),
      header.slice(header.indexOf(":") + 1).trim(),
    ]),
  );
  const length = end + 4 + Number(headers["content-length"] ?? 0);
  if (bytes.length < length) return null;
  return { request: { method, path, headers, body: bytes.toString("utf8", end + 4, length) }, length };
}

/** The bytes of a complete answer. */
export function answerBytes(status: string, type: string, body: string, headers: readonly string[] = []): string {
  return [
    `HTTP/1.1 ${status}`,
    `content-type: ${type}`,
    `content-length: ${Buffer.byteLength(body)}`,
    ...headers,
    "",
    body,
  ].join("\r\n");
}

/** The head of a streamed answer that ends with the connection. */
export const streamHead = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/** An event of a stream. */
export function sse(value: unknown): string {
  return `data: ${typeof value === "string" ? value : JSON.stringify(value)}\n\n`;
}
