import { connect } from "node:net";
import process from "node:process";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { runClient } from "./client-process.js";
import { quantile } from "./open-loop.js";

/** Streamed chats, each over its own connection, of a model that sends a token every `paceMs`. */
export interface PacedPlan {
  readonly port: number;
  readonly key: string;
  readonly model: string;
  readonly streams: number;
  /** Time over which the connections are opened. */
  readonly rampMs: number;
  readonly paceMs: number;
  /** Tokens of each stream. */
  readonly tokens: number;
}

/** Figures of the chunks that arrived while all streams were open. A chunk is late by its time after the previous one less `paceMs`. */
export interface PacedFigures {
  /** Streams that ended with `[DONE]` after all their tokens. */
  readonly whole: number;
  readonly openMax: number;
  readonly chunks: number;
  readonly lateP50Ms: number;
  readonly lateP99Ms: number;
  readonly lateMaxMs: number;
}

/** Receives the streams in a process of its own, and resolves when all have ended. */
export function receivePacedStreams(plan: PacedPlan): Promise<PacedFigures> {
  return runClient(fileURLToPath(import.meta.url), plan);
}

/** Longest wait for the end of a stream. */
const endMaxMs = 60_000;
const event = Buffer.from("data: ");
const done = Buffer.from("[DONE]");

async function main({ port, key, model, streams, rampMs, paceMs, tokens }: PacedPlan): Promise<void> {
  const body = JSON.stringify({ model, stream: true, messages: [{ role: "user", content: "one two" }] });
  const head = [
    "POST /v1/chat/completions HTTP/1.1",
    "host: 127.0.0.1",
    `authorization: Bearer ${key}`,
    "content-type: application/json",
    `content-length: ${Buffer.byteLength(body)}`,
  ];
  const request = `${head.join("\r\n")}\r\n\r\n${body}`;
  const late: number[] = [];
  const seen = { open: 0, openMax: 0, whole: 0 };

  const receive = (): Promise<void> =>
    new Promise((resolve, reject) => {
      let chunks = 0;
      let lastAtMs = 0;
      const socket = connect(port, "127.0.0.1", () => socket.write(request));
      socket.setTimeout(endMaxMs, () => socket.destroy(new Error("a stream does not go on")));
      socket.on("data", (data) => {
        const nowMs = performance.now();
        const allAreOpen = seen.open === streams;
        for (let at = data.indexOf(event); at >= 0; at = data.indexOf(event, at + event.length)) {
          if (data.subarray(at + event.length, at + event.length + done.length).equals(done)) {
            seen.open -= 1;
            if (chunks > tokens) seen.whole += 1;
            socket.destroy();
            return;
          }
          if (chunks === 0) {
            seen.open += 1;
            seen.openMax = Math.max(seen.openMax, seen.open);
          } else if (allAreOpen && chunks < tokens) late.push(nowMs - lastAtMs - paceMs);
          chunks += 1;
          lastAtMs = nowMs;
        }
      });
      socket.on("error", reject).on("close", () => resolve());
    });

  const running: Promise<void>[] = [];
  const startedAtMs = performance.now();
  while (running.length < streams) {
    const due = Math.min(streams, ((performance.now() - startedAtMs) / rampMs) * streams);
    while (running.length < due) running.push(receive());
    await delay(1);
  }
  await Promise.all(running);
  late.sort((a, b) => a - b);
  const figures: PacedFigures = {
    whole: seen.whole,
    openMax: seen.openMax,
    chunks: late.length,
    lateP50Ms: quantile(late, 0.5),
    lateP99Ms: quantile(late, 0.99),
    lateMaxMs: quantile(late, 1),
  };
  process.stdout.write(JSON.stringify(figures));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main(JSON.parse(process.argv[2] ?? "") as PacedPlan);
