/**
 * The baseline of a gateway: node:http in front and undici's `Pool.dispatch` behind it, without authentication, validation or
 * accounting. Bytes pass unchanged, with backpressure, and a client that leaves aborts the request.
 *
 *   pass-through.ts UPSTREAM_URL
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { type Dispatcher, Pool } from "undici";

const pool = new Pool(process.argv[2] ?? "", { pipelining: 1 });

/** Writes the upstream's answer to the client. */
class Answer implements Dispatcher.DispatchHandler {
  readonly #response: ServerResponse;
  #controller: Dispatcher.DispatchController | null = null;

  constructor(response: ServerResponse) {
    this.#response = response;
    response.on("drain", () => this.#controller?.resume());
    response.once("close", () => {
      if (!response.writableFinished) this.#controller?.abort(new Error("the client has left"));
    });
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: Record<string, string | string[]>): void {
    this.#response.writeHead(status, headers);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (!this.#response.write(chunk)) controller.pause();
  }

  onResponseEnd(): void {
    this.#controller = null;
    this.#response.end();
  }

  onResponseError(): void {
    this.#controller = null;
    if (!this.#response.headersSent) this.#response.writeHead(502);
    this.#response.end();
  }
}

function pass(request: IncomingMessage, response: ServerResponse): void {
  const parts: Buffer[] = [];
  request.on("data", (part: Buffer) => parts.push(part));
  request.on("end", () => {
    const { url: path = "/", method } = request;
    const body = parts.length === 1 ? (parts[0] ?? null) : Buffer.concat(parts);
    const headers = { "content-type": "application/json" };
    pool.dispatch({ path, method: method as Dispatcher.HttpMethod, headers, body }, new Answer(response));
  });
}

const server = createServer(pass);
server.listen(0, "127.0.0.1", () => {
  process.stdout.write(`${JSON.stringify({ port: (server.address() as AddressInfo).port })}\n`);
});
process.once("SIGTERM", () => process.exit(0));
