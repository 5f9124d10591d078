import { connect } from "node:net";
import { quantile } from "./http-request.js";
import { AnswerReader, type Totals } from "./raw-client.js";

export interface LoadPlan {
  readonly connections: number;
  readonly seconds: number;
  /** The next request; requests may differ. */
  next(): Buffer;
  /** Rate of all connections together, evenly spread; absent: each sends its next request as soon as it has an answer. */
  readonly perSecond?: number;
}

export interface LoadFigures {
  readonly answers: number;
  readonly perSecond: number;
  /** Latency from the time at which a request was due to the end of its answer. */
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** Sends requests over kept-alive connections. Rejects when an answer is not 200. */
export async function sendLoad(port: number, plan: LoadPlan): Promise<LoadFigures> {
  const totals: Totals = { answers: 0, events: 0, bytes: 0, failures: 0 };
  const latenciesMs: number[] = [];
  const startedMs = performance.now();
  const stopAtMs = startedMs + plan.seconds * 1_000;
  let isSending = true;
  // A sleeping client is woken by the service's writes, which costs the service time: see raw-client.ts.
  const turn = (): void => {
    if (isSending) setImmediate(turn);
  };
  turn();
  const each = Array.from({ length: plan.connections }, (_, number) =>
    sendOn(port, plan, { number, startedMs, stopAtMs, totals, latenciesMs }),
  );
  await Promise.all(each).finally(() => {
    isSending = false;
  });
  if (totals.failures > 0) throw new Error(`${totals.failures} of ${totals.answers} answers were not 200`);
  return {
    answers: totals.answers,
    perSecond: totals.answers / ((performance.now() - startedMs) / 1_000),
    p50Ms: quantile(latenciesMs, 0.5),
    p99Ms: quantile(latenciesMs, 0.99),
  };
}

interface Connection {
  readonly number: number;
  readonly startedMs: number;
  readonly stopAtMs: number;
  readonly totals: Totals;
  readonly latenciesMs: number[];
}

function sendOn(port: number, { connections, next, perSecond }: LoadPlan, connection: Connection): Promise<void> {
  const { number, startedMs, stopAtMs, totals, latenciesMs } = connection;
  const isPaced = perSecond !== undefined;
  const everyMs = isPaced ? (connections * 1_000) / perSecond : 0;
  // Paced connections are opened in turn, each with its first request, whose time is not counted.
  let dueAtMs = startedMs + (everyMs * number) / connections;
  let isFirst = isPaced;
  return new Promise((resolve, reject) => {
    const open = (): void => {
      const socket = connect(port, "127.0.0.1");
      socket.setNoDelay(true);
      const send = (): void => {
        const nowMs = performance.now();
        if (nowMs >= stopAtMs) return void socket.destroy();
        if (!isPaced) dueAtMs = nowMs;
        socket.write(next());
      };
      const reader = new AnswerReader(totals, () => {
        if (!isFirst) latenciesMs.push(performance.now() - dueAtMs);
        isFirst = false;
        dueAtMs += everyMs;
        const waitMs = Math.min(dueAtMs, stopAtMs) - performance.now();
        if (waitMs <= 0) send();
        else setTimeout(send, waitMs);
      });
      socket.once("connect", send);
      socket.on("data", (data: Buffer) => reader.take(data));
      socket.once("error", reject);
      socket.once("close", () => resolve());
    };
    if (isPaced) setTimeout(open, dueAtMs - performance.now());
    else open();
  });
}
