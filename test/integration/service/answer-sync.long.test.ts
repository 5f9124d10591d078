import { mkdtempSync, rmSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, type TestContext } from "vitest";
import { eventually } from "../../support/eventually.js";
import { needsInstalled } from "../../support/missing-program.js";
import { startServiceProcess } from "../../support/service-process.js";
import { WebhookInbox, webhooksHere } from "./webhook-inbox.js";

const count = 10;
/** Duration of the engine's work. It is longer than any write or sync that the admission may have caused. */
const engineMs = 150;
const models = [
  { id: "test", engine: "scripted", scripted: { text: "tick", tokens: 3, first_token_delay_ms: engineMs } },
];

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "uis-answer-"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const forms = [
  { what: "an answer in one piece", isStream: false },
  { what: "a stream", isStream: true },
];

describe("the embedded service", () => {
  it.for(forms)(
    "syncs a request's usage to disk before the last bytes of $what are sent (USE-1)",
    { timeout: 120_000 },
    async ({ isStream }, context) => {
      needsTrace(context);
      const { happened } = await traceAnswers(isStream, {});
      const asked = of(happened, "asked");
      const ended = of(happened, "ended");
      expect([asked.length, ended.length]).toEqual([count, count]);
      for (const [number, { atMs: askedAtMs }] of asked.entries()) {
        const endedAtMs = ended[number]?.atMs ?? 0;
        // A sync that started after the engine's work belongs to the settlement. It must end before the end of the answer
        // is written.
        const synced = of(happened, "synced").filter(
          ({ atMs, doneAtMs }) => atMs >= askedAtMs + engineMs && doneAtMs <= endedAtMs,
        );
        expect([number, synced.length > 0]).toEqual([number, true]);
      }
    },
  );

  it.for(forms)(
    "syncs the delivery of a request's event to disk before the last bytes of $what are sent (REL-12)",
    { timeout: 120_000 },
    async ({ isStream }, context) => {
      needsTrace(context);
      const inbox = await WebhookInbox.open({ answer: () => ({ status: 204 }) });
      try {
        const { happened, requestIds } = await traceAnswers(isStream, { webhooks: webhooksHere }, inbox);
        const ended = of(happened, "ended");
        expect(ended.length).toBe(count);
        const eventIds = new Map(inbox.arrivals.map(({ requestId, eventId }) => [requestId, eventId]));
        for (const [number, requestId] of requestIds.entries()) {
          const eventId = eventIds.get(requestId) ?? "not told";
          const wroteAtMs = of(happened, "wrote").find(({ events }) => events.includes(eventId))?.atMs ?? Infinity;
          const synced = of(happened, "synced").filter(
            ({ atMs, doneAtMs }) => atMs >= wroteAtMs && doneAtMs <= (ended[number]?.atMs ?? 0),
          );
          expect([requestId, synced.length > 0]).toEqual([requestId, true]);
        }
      } finally {
        await inbox.close();
      }
    },
  );
});

function needsTrace(context: TestContext): void {
  if (process.platform !== "linux") context.skip("strace is a program for Linux");
  needsInstalled("strace");
}

/** Sends consecutive requests to a service under strace; with an inbox, until it has received their events. */
async function traceAnswers(isStream: boolean, config: object, inbox: WebhookInbox | null = null) {
  const trace = join(root, "trace");
  // strace runs as a detached process (-D), so that killing the child kills the traced process.
  const calls = "--trace=fsync,fdatasync,pwrite64,read,write,writev";
  const strace = ["strace", "-D", "-f", "--seccomp-bpf", "-yy", "-ttt", "-s", "16384", calls, "-o", trace];
  const under = (command: readonly string[]) => [...strace, ...command];
  const service = await startServiceProcess({ folder: root, config: { models, ...config }, under });
  const requestIds: string[] = [];
  try {
    await inbox?.makeEndpoint(service, { path: "/" });
    for (let number = 1; number <= count; number++) requestIds.push(await ask(service.http, service.key, isStream));
    await inbox?.receiver.until(count);
  } finally {
    await service.kill();
  }
  const traced = async () => eventsOf(await readFile(trace, "utf8"));
  await eventually(async () => of(await traced(), "ended").length === count, "the end of the trace");
  return { happened: await traced(), requestIds };
}

/** Sends a request and returns its id. */
async function ask(http: string, key: string, isStream: boolean): Promise<string> {
  const response = await fetch(`${http}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "test", stream: isStream, messages: [{ role: "user", content: "one" }] }),
  });
  expect(response.status).toBe(200);
  await response.text();
  return response.headers.get("x-request-id") ?? "";
}

interface TraceEvent {
  /**
   * Kind of the system call: a request arrives, the end of an answer is written, the log of the database is written or
   * synced.
   */
  readonly kind: "asked" | "ended" | "wrote" | "synced";
  /** When the call began and when it returned. Only `synced` has two different times. */
  readonly atMs: number;
  readonly doneAtMs: number;
  /** The ids of events in the data that was written. */
  readonly events: readonly string[];
}

function of(events: readonly TraceEvent[], kind: TraceEvent["kind"]): TraceEvent[] {
  return events.filter((event) => event.kind === kind);
}

/** Events in the order of the trace. A call during which another thread ran appears twice in it. */
function eventsOf(trace: string): TraceEvent[] {
  const syncing = new Map<string, number>();
  return trace.split("\n").flatMap((line): TraceEvent | readonly TraceEvent[] => {
    const [, thread = "", seconds, call = ""] = /^(\d+) +(\d+\.\d+) (.*)$/.exec(line) ?? [];
    const atMs = Number(seconds) * 1_000;
    const at = (kind: TraceEvent["kind"], begunAtMs = atMs) => ({ kind, atMs: begunAtMs, doneAtMs: atMs, events: [] });
    if (/^pwrite64\(\d+<[^>]*uis\.db-wal>/.test(call))
      return { ...at("wrote"), events: call.match(/evt_[0-9a-f]{32}/g) ?? [] };
    if (/^f(?:data)?sync\(\d+<[^>]*uis\.db-wal>/.test(call)) {
      if (!call.includes("<unfinished")) return at("synced");
      syncing.set(thread, atMs);
      return [];
    }
    if (/^<\.\.\. f(?:data)?sync resumed>\) += 0$/.test(call)) {
      const begunAtMs = syncing.get(thread);
      syncing.delete(thread);
      return begunAtMs === undefined ? [] : at("synced", begunAtMs);
    }
    if (!call.includes("<TCP")) return call.startsWith("<... read resumed>") && isQuestion(call) ? at("asked") : [];
    if (isQuestion(call)) return at("asked");
    const isEnd = call.includes("data: [DONE]") || call.includes('\\"object\\":\\"chat.completion\\",');
    return /^writev?\(/.test(call) && isEnd ? at("ended") : [];
  });
}

function isQuestion(call: string): boolean {
  return call.includes('"POST /v1/chat/completions');
}
