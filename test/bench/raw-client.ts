import { connect, type Socket } from "node:net";

export interface LoadResult {
  /** Complete answers. */
  readonly answers: number;
  /** SSE events, `[DONE]` included; 0 for other answers. */
  readonly events: number;
  readonly bytes: number;
  readonly seconds: number;
  /** Answers whose status was not 200. */
  readonly failures: number;
}

const headEnd = Buffer.from("\r\n\r\n");
const chunkedEnd = Buffer.from("0\r\n\r\n");
const eventEnd = Buffer.from("\n\n");

/**
 * Repeats one prepared request, or several in turn, over `connections` keep-alive connections. It parses only the ends of answers, so that the
 * client costs little in comparison to the server. `staysAwake` is for a client with a dedicated core: on a shared core
 * it would take the other program's time. `perSecond` bounds the rate of all connections together.
 */
export async function load(
  port: number,
  request: Buffer | readonly Buffer[],
  connections: number,
  seconds: number,
  staysAwake = true,
  perSecond = Number.POSITIVE_INFINITY,
): Promise<LoadResult> {
  const totals = { answers: 0, events: 0, bytes: 0, failures: 0 };
  const startedMs = performance.now();
  const stopAtMs = startedMs + seconds * 1000;
  const stopSpinning = staysAwake ? spin() : () => {};
  let sent = 0;
  const requests = Buffer.isBuffer(request) ? [request] : request;
  const sendInTurn = (socket: Socket): void => {
    const next = requests[sent % requests.length] ?? "";
    const inMs = startedMs + (sent++ * 1000) / perSecond - performance.now();
    if (inMs <= 0) socket.write(next);
    else setTimeout(() => socket.destroyed || socket.write(next), inMs);
  };
  await Promise.all(Array.from({ length: connections }, () => oneConnection(port, sendInTurn, stopAtMs, totals)));
  stopSpinning();
  return { ...totals, seconds: (performance.now() - startedMs) / 1000 };
}

/**
 * Keeps this process awake. A client that sleeps between answers must be woken by the server's writes, and on a virtual
 * machine the wake-up costs the server 20 µs per request: more than everything else, and outside of the server's control.
 */
function spin(): () => void {
  let spinning = true;
  const turn = (): void => {
    if (spinning) setImmediate(turn);
  };
  turn();
  return () => {
    spinning = false;
  };
}

export type Totals = { answers: number; events: number; bytes: number; failures: number };

function oneConnection(port: number, send: (socket: Socket) => void, stopAtMs: number, totals: Totals): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => send(socket));
    socket.setNoDelay(true);
    const reader = new AnswerReader(totals, () => {
      if (performance.now() < stopAtMs) send(socket);
      else socket.destroy();
    });
    socket.on("data", (data: Buffer) => reader.take(data));
    socket.once("error", reject);
    socket.once("close", () => resolve());
    endLate(socket, stopAtMs);
  });
}

/** Closes a connection whose last answer has not ended in time. */
function endLate(socket: Socket, stopAtMs: number): void {
  const timer = setTimeout(() => socket.destroy(), stopAtMs - performance.now() + 5_000);
  socket.once("close", () => clearTimeout(timer));
}

/** Finds the ends of answers in received bytes. Answers end by content-length or with the last chunk. */
export class AnswerReader {
  readonly #totals: Totals;
  readonly #answered: () => void;
  /** Remaining bytes of the body; -1: until the last chunk; null: in the head. */
  #left: number | null = null;
  #head: Buffer = Buffer.alloc(0);
  #tail: Buffer = Buffer.alloc(0);

  constructor(totals: Totals, answered: () => void) {
    this.#totals = totals;
    this.#answered = answered;
  }

  take(data: Buffer): void {
    this.#totals.bytes += data.length;
    const body = this.#left === null ? this.#takeHead(data) : data;
    if (body === null || this.#left === null) return;
    if (this.#left >= 0) {
      this.#left -= body.length;
      if (this.#left <= 0) this.#end();
      return;
    }
    this.#countEvents(body);
    this.#tail = Buffer.concat([this.#tail.subarray(-4), body]);
    if (this.#tail.subarray(-chunkedEnd.length).equals(chunkedEnd)) this.#end();
  }

  #takeHead(data: Buffer): Buffer | null {
    this.#head = this.#head.length === 0 ? data : Buffer.concat([this.#head, data]);
    const end = this.#head.indexOf(headEnd);
    if (end < 0) return null;
    const head = this.#head.toString("latin1", 0, end);
    const body = this.#head.subarray(end + headEnd.length);
    this.#head = Buffer.alloc(0);
    this.#tail = Buffer.alloc(0);
    if (!head.startsWith("HTTP/1.1 200")) this.#totals.failures += 1;
    const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1];
    this.#left = length === undefined ? -1 : Number(length);
    return body;
  }

  #countEvents(body: Buffer): void {
    for (let at = body.indexOf(eventEnd); at >= 0; at = body.indexOf(eventEnd, at + 2)) this.#totals.events += 1;
  }

  #end(): void {
    this.#left = null;
    this.#totals.answers += 1;
    this.#answered();
  }
}
