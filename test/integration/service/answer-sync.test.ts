import { mkdtempSync, rmSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { startBuiltService } from "../../support/built-service.js";
import { eventually } from "../../support/eventually.js";
import { needsProgram } from "../embedded/programs.js";

const count = 10;
/** The engine is at work for longer than anything that the admission may have begun. */
const engineMs = 150;
const models = [
  { id: "test", engine: "scripted", scripted: { text: "tick", tokens: 3, first_token_delay_ms: engineMs } },
];

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "uis-answer-"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

describe("the embedded service on the way to the disk and to its clients", () => {
  it.for([
    { what: "an answer in one piece", isStream: false },
    { what: "a stream", isStream: true },
  ])(
    "USE-1: has synced a request's usage before the last bytes of $what leave",
    {
      timeout: 120_000,
    },
    async ({ isStream }, context) => {
      if (process.platform !== "linux") context.skip("strace is a program for Linux");
      needsProgram(context, "strace", "strace");
      const trace = join(root, "trace");
      // Beside the process and not above it (-D): killing the child is then killing the process.
      const calls = "--trace=fsync,fdatasync,read,write,writev";
      const under = ["strace", "-D", "-f", "--seccomp-bpf", "-yy", "-ttt", "-s", "16384", calls, "-o", trace];
      const service = await startBuiltService({ folder: root, config: { models }, under });
      try {
        for (let number = 1; number <= count; number++) await ask(service.http, service.key, isStream);
      } finally {
        await service.kill();
      }
      const traced = async () => eventsOf(await readFile(trace, "utf8"));
      await eventually(async () => of(await traced(), "ended").length === count, "the end of the trace");
      const happened = await traced();
      const asked = of(happened, "asked");
      const ended = of(happened, "ended");
      expect([asked.length, ended.length]).toEqual([count, count]);
      for (const [number, { atMs: askedAtMs }] of asked.entries()) {
        const endedAtMs = ended[number]?.atMs ?? 0;
        // It was begun after the engine's work, so it is that of the settlement, and is over before the end is written.
        const synced = of(happened, "synced").filter(
          ({ atMs, doneAtMs }) => atMs >= askedAtMs + engineMs && doneAtMs <= endedAtMs,
        );
        expect([number, synced.length > 0]).toEqual([number, true]);
      }
    },
  );
});

async function ask(http: string, key: string, isStream: boolean): Promise<void> {
  const response = await fetch(`${http}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "test", stream: isStream, messages: [{ role: "user", content: "one" }] }),
  });
  expect(response.status).toBe(200);
  await response.text();
}

interface TraceEvent {
  /** The arrival of a question, the end of an answer, a sync of the database's log. */
  readonly kind: "asked" | "ended" | "synced";
  /** When the call began and when it returned; `ended` and `asked`: when they began. */
  readonly atMs: number;
  readonly doneAtMs: number;
}

function of(events: readonly TraceEvent[], kind: TraceEvent["kind"]): TraceEvent[] {
  return events.filter((event) => event.kind === kind);
}

/** In the order of the trace. A call that another thread interrupted stands in it twice. */
function eventsOf(trace: string): TraceEvent[] {
  const syncing = new Map<string, number>();
  return trace.split("\n").flatMap((line): TraceEvent | readonly TraceEvent[] => {
    const [, thread = "", seconds, call = ""] = /^(\d+) +(\d+\.\d+) (.*)$/.exec(line) ?? [];
    const atMs = Number(seconds) * 1_000;
    const at = (kind: "asked" | "ended") => ({ kind, atMs, doneAtMs: atMs });
    if (/^f(?:data)?sync\(\d+<[^>]*uis\.db-wal>/.test(call)) {
      if (!call.includes("<unfinished")) return { kind: "synced", atMs, doneAtMs: atMs };
      syncing.set(thread, atMs);
      return [];
    }
    if (/^<\.\.\. f(?:data)?sync resumed>\) += 0$/.test(call)) {
      const begunAtMs = syncing.get(thread);
      syncing.delete(thread);
      return begunAtMs === undefined ? [] : { kind: "synced", atMs: begunAtMs, doneAtMs: atMs };
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
