import { Agent, request as httpRequest } from "node:http";
import process from "node:process";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { runClient } from "./client-process.js";

/** Requests of one kind, sent at a rate whether or not earlier ones are answered, or one after the other. */
export interface Stream {
  readonly name: string;
  readonly key: string;
  readonly path: "/v1/chat/completions" | "/v1/embeddings";
  readonly model: string;
  /** Requests per second; null: each is sent after the answer to the previous one. */
  readonly perSecond: number | null;
  /** Characters of the message, or inputs of an embeddings request. */
  readonly size: number;
}

export interface LoadPlan {
  /** `http://host:port` */
  readonly url: string;
  readonly streams: readonly Stream[];
  /** Seconds before the figures begin. */
  readonly warmUpS: number;
  /** Seconds to which the figures refer. */
  readonly seconds: number;
}

/** Figures of the requests of one kind that were sent after the warm-up. Times in milliseconds; 0 without answers. */
export interface StreamFigures {
  readonly sent: number;
  readonly ok: number;
  readonly rejected: number;
  /** Numbers of failed requests, by status or error. */
  readonly failures: Readonly<Record<string, number>>;
  readonly okP50Ms: number;
  readonly okP99Ms: number;
  readonly rejectedP99Ms: number;
  /** Successful answers per second. */
  readonly goodput: number;
}

/** Sends the load from a process of its own and resolves with the figures by the names of the streams. */
export function sendLoad(plan: LoadPlan): Promise<Readonly<Record<string, StreamFigures>>> {
  return runClient(fileURLToPath(import.meta.url), plan);
}

interface Answer {
  readonly sentAtMs: number;
  readonly tookMs: number;
  /** 0 without an answer. */
  readonly status: number;
  readonly error: string;
}

/** The longest wait for answers after the last request. */
const drainMs = 40_000;

async function main(plan: LoadPlan): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 4_096 });
  const startMs = performance.now();
  const fromMs = startMs + plan.warmUpS * 1_000;
  const untilMs = fromMs + plan.seconds * 1_000;
  const figures = await Promise.all(
    plan.streams.map(async (stream) => {
      const answers = await sendStream(plan.url, stream, agent, startMs, untilMs);
      const counted = answers.filter(({ sentAtMs }) => sentAtMs >= fromMs);
      return [stream.name, figuresOf(counted, plan.seconds)] as const;
    }),
  );
  agent.destroy();
  process.stdout.write(JSON.stringify(Object.fromEntries(figures)));
}

async function sendStream(url: string, stream: Stream, agent: Agent, startMs: number, untilMs: number) {
  const body = bodyOf(stream);
  const send = () => post(`${url}${stream.path}`, stream.key, body, agent);
  const answers: Answer[] = [];
  if (stream.perSecond === null) {
    while (performance.now() < untilMs) answers.push(await send());
    return answers;
  }
  const pending: Promise<unknown>[] = [];
  for (let number = 0; performance.now() < untilMs; ) {
    const due = ((performance.now() - startMs) * stream.perSecond) / 1_000;
    for (; number < due; number += 1) pending.push(send().then((answer) => answers.push(answer)));
    await delay(1);
  }
  await Promise.race([Promise.all(pending), delay(drainMs, undefined, { ref: false })]);
  return answers;
}

const sentence = "A queue in front of a model keeps one busy customer from slowing down all others. ";

function bodyOf({ path, model, size }: Stream): Buffer {
  if (path === "/v1/embeddings") {
    const input = Array.from({ length: size }, (_, number) => `${number} ${sentence}`);
    return Buffer.from(JSON.stringify({ model, input, encoding_format: "float" }));
  }
  const content = sentence.repeat(Math.ceil(size / sentence.length)).slice(0, size);
  return Buffer.from(JSON.stringify({ model, messages: [{ role: "user", content }] }));
}

function post(url: string, key: string, body: Buffer, agent: Agent): Promise<Answer> {
  const sentAtMs = performance.now();
  const headers = {
    authorization: `Bearer ${key}`,
    "content-type": "application/json",
    "content-length": body.length,
  };
  return new Promise((resolve) => {
    const end = (status: number, error: string) =>
      resolve({ sentAtMs, tookMs: performance.now() - sentAtMs, status, error });
    const asked = httpRequest(url, { agent, method: "POST", headers }, (response) => {
      response.resume().on("end", () => end(response.statusCode ?? 0, ""));
    });
    asked.on("error", (error: NodeJS.ErrnoException) => end(0, error.code ?? "error"));
    asked.end(body);
  });
}

function figuresOf(answers: readonly Answer[], seconds: number): StreamFigures {
  const timesOf = (status: number) =>
    answers.flatMap((answer) => (answer.status === status ? [answer.tookMs] : [])).sort((a, b) => a - b);
  const [ok, rejected] = [timesOf(200), timesOf(503)];
  const failures: Record<string, number> = {};
  for (const { status, error } of answers) {
    const name = error === "" ? String(status) : error;
    if (status !== 200 && status !== 503) failures[name] = (failures[name] ?? 0) + 1;
  }
  return {
    sent: answers.length,
    ok: ok.length,
    rejected: rejected.length,
    failures,
    okP50Ms: quantile(ok, 0.5),
    okP99Ms: quantile(ok, 0.99),
    rejectedP99Ms: quantile(rejected, 0.99),
    goodput: ok.length / seconds,
  };
}

/** The value at a share of sorted numbers, rounded to a tenth; 0 without numbers. */
export function quantile(sorted: readonly number[], share: number): number {
  return Math.round((sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0) * 10) / 10;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main(JSON.parse(process.argv[2] ?? "") as LoadPlan);
