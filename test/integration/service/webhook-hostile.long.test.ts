import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:tls";
import { afterEach, describe, expect, it } from "vitest";
import { type Authority, makeAuthority } from "../../support/receivers/authority.js";
import { startHostileProcess } from "../../support/receivers/hostile-process.js";
import { startListener } from "../../support/receivers/listener.js";
import { type Receiver, startReceiver } from "../../support/receivers/receiver.js";
import { trickOutcomes } from "../../support/receivers/trick-outcomes.js";
import { reset, type Trick } from "../../support/receivers/tricks.js";
import { ServiceFolder } from "../../support/service-process.js";
import { type ShownAttempt, type ShownDelivery, WebhookCalls } from "./webhook-calls.js";

const budgetMs = 5_000;
/** Maximum delay of an attempt's end after its timeout: five times the target. */
const lateMaxMs = 5 * 200;
/** Maximum time from an event to its arrival at a good receiver while hostile receivers are busy: five times the target. */
const goodWithinMs = 5 * 500;
/** Two events, so that the second one meets receivers that still hold the first. */
const eventsPerRound = 2;
/** Rounds in which heap and buffer pools of the service grow to their final size. */
const warmRounds = 2;
/** Heap limit in MiB. With a larger heap V8 delays garbage collection, so that memory grows without a leak. */
const heapMib = 96;
/** Maximum growth of resident memory: five times the target of 10 MiB. */
const growthMaxBytes = 50 * 2 ** 20;
const fileGrowthMax = 16;
const local = ["127.0.0.1"];

const opened: { close(): Promise<void> | void }[] = [];
afterEach(async () => {
  for (const part of opened.splice(0).reverse()) await part.close();
});

/** Registers a part for cleanup after the test, in reverse order. */
function closing<T extends { close(): Promise<void> | void }>(part: T): T {
  opened.push(part);
  return part;
}

/** A receiver and the expected result of its attempts. */
interface Expected {
  readonly url: string;
  readonly status: number | null;
  readonly error: string | null;
}

const ended = ["delivered", "awaiting_retry"];

describe("a service among hostile receivers", () => {
  it("every attempt ends in time with its cause, memory and open files stay constant, and other receivers get their deliveries (WH-20, WH-21, WH-23, SEC-16)", {
    timeout: 600_000,
  }, async (context) => {
    const authority = closing(makeAuthority());
    const receivers = { ...(await hostileReceivers()), ...(await receiversWithFaultyTls(authority)) };
    const good = closing(await startReceiver());
    const secure = closing(await startReceiver({ tls: authority.issue(local) }));
    const { calls, pid } = await serve(authority);
    const names = new Map<string, string>();
    for (const [name, { url }] of Object.entries(receivers)) names.set(await calls.add(url), name);
    for (const { url } of [good, secure]) names.set(await calls.add(url), "good");

    const attempts: Seen[] = [];
    const rss = watchMemory(pid);
    let events = 0;
    let slowestGoodMs = 0;
    const round = async (): Promise<void> => {
      for (let event = 0; event < eventsPerRound; event += 1) {
        await calls.chat("quick");
        events += 1;
        slowestGoodMs = Math.max(slowestGoodMs, await msUntil([good, secure], events));
      }
      attempts.push(...(await seenUntilAllEnd(calls, eventsPerRound * names.size, attempts)));
    };
    for (let warm = 0; warm < warmRounds; warm += 1) await round();
    const [warmPeak, warmFiles] = [rss.peak(), openFiles(pid)];
    rss.startAnew();
    const counted = 20;
    for (let made = 0; made < counted; made += 1) await round();
    rss.close();
    const grownBytes = rss.peak() - warmPeak;

    const longestMs = Math.max(...attempts.map(({ heldMs }) => heldMs));
    const latencies = attempts.map(({ attempt }) => Number(attempt.latencyMs ?? 0));
    await context.annotate(
      `${attempts.length} attempts at ${names.size} receivers in ${warmRounds + counted} rounds: latency at most ` +
        `${Math.max(...latencies)} ms, seen to end after at most ${longestMs} ms; good receivers after at most ` +
        `${Math.round(slowestGoodMs)} ms; peak of memory grown by ${(grownBytes / 2 ** 20).toFixed(1)} MiB; open files ` +
        `${warmFiles}, then ${openFiles(pid)}`,
    );
    for (const { endpointId, attempt } of attempts) {
      const name = names.get(endpointId) ?? "";
      const { status, error } = receivers[name] ?? { status: 200, error: null };
      // The second event may reuse the connection after its flood has begun.
      if (name === "flood after the answer" && attempt.error === "bad_response") continue;
      const came = { status: attempt.status ?? null, error: attempt.error ?? null };
      expect({ name, ...came }).toEqual({ name, status, error });
      // A reset right after the connection was established can be reported before the address is known.
      if (error !== "reset") expect([name, attempt.ip]).toEqual([name, "127.0.0.1"]);
      const latencyMs = Number(attempt.latencyMs ?? 0);
      expect(latencyMs).toBeLessThan(budgetMs + lateMaxMs);
      if (error === "timeout") expect(latencyMs).toBeGreaterThanOrEqual(budgetMs - 2);
    }
    expect(longestMs).toBeLessThan(budgetMs + lateMaxMs + 5 * lookEveryMs);
    expect(slowestGoodMs).toBeLessThan(goodWithinMs);
    expect(grownBytes).toBeLessThan(growthMaxBytes);
    expect(openFiles(pid)).toBeLessThanOrEqual(warmFiles + fileGrowthMax);
  });
});

async function serve({ caFile }: Authority): Promise<{ calls: WebhookCalls; pid: number }> {
  const served = await ServiceFolder.create();
  closing({ close: () => served.remove() });
  const adminToken = "admin-of-hostile-receivers-4711";
  const webhooks = { allow_http: true, allow_private_cidrs: ["127.0.0.0/8"], endpoints_max: 200, retry_delays: ["1h"] };
  const models = [{ id: "quick", engine: "scripted", scripted: { text: "tick" } }];
  const config = { data_dir: served.dataDir, models, webhooks };
  const { line, child } = await served.start(config, {
    nodeArgs: [`--max-old-space-size=${heapMib}`],
    env: { UIS_ADMIN_TOKEN: adminToken, NODE_EXTRA_CA_CERTS: caFile },
  });
  const calls = new WebhookCalls({ http: new URL(line.api).origin, key: line.api_key?.secret ?? "", adminToken });
  return { calls, pid: child.pid ?? 0 };
}

async function hostileReceivers(): Promise<Record<string, Expected>> {
  const { urls } = closing(await startHostileProcess());
  return Object.fromEntries(
    (Object.entries(urls) as [Trick, string][]).map(([trick, url]) => {
      const { status = null, error = null } = trickOutcomes[trick];
      return [trick, { url, status, error }];
    }),
  );
}

/** Receivers whose TLS fails before any HTTP is exchanged. */
async function receiversWithFaultyTls(authority: Authority): Promise<Record<string, Expected>> {
  const stranger = closing(makeAuthority());
  const withTls = async (identity: ReturnType<Authority["issue"]>) =>
    closing(await startReceiver({ tls: identity })).port;
  const listening = async (onConnection: Parameters<typeof startListener>[0]) =>
    closing(await startListener(onConnection)).port;
  const faults: Record<string, readonly [port: number, error: string]> = {
    "certificate that has expired": [await withTls(authority.issue(local, -1)), "tls"],
    "certificate for another name": [await withTls(authority.issue(["other.test"])), "tls"],
    "certificate of an unknown authority": [await withTls(stranger.issue(local)), "tls"],
    "old version of TLS": [await startOldTls(authority), "tls"],
    "no TLS": [closing(await startReceiver()).port, "tls"],
    "nonsense in place of TLS": [await listening({ onConnection: (it) => void it.write("x".repeat(500)) }), "tls"],
    "reset in the handshake": [await listening({ onConnection: reset }), "reset"],
    "silence in the handshake": [await listening({}), "timeout"],
  };
  return Object.fromEntries(
    Object.entries(faults).map(([name, [port, error]]) => [
      name,
      { url: `https://127.0.0.1:${port}/`, status: null, error },
    ]),
  );
}

async function startOldTls(authority: Authority): Promise<number> {
  const versions = { minVersion: "TLSv1", maxVersion: "TLSv1.1", ciphers: "ALL@SECLEVEL=0" } as const;
  const server = createServer({ ...authority.issue(local), ...versions });
  server.on("tlsClientError", () => {});
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing({ close: () => void server.close() });
  return (server.address() as { port: number }).port;
}

async function msUntil(receivers: readonly Receiver[], requests: number): Promise<number> {
  const sinceMs = performance.now();
  await Promise.all(receivers.map((receiver) => receiver.until(requests)));
  return performance.now() - sinceMs;
}

/** An attempt and the time for which its connection was open, which includes reading the body after the headers. */
interface Seen {
  readonly endpointId: string;
  readonly deliveryId: string;
  readonly attempt: ShownAttempt;
  readonly heldMs: number;
}

const lookEveryMs = 200;

/** Polls until the `count` newest deliveries that are not in `before` have had their attempt. */
async function seenUntilAllEnd(calls: WebhookCalls, count: number, before: readonly Seen[]): Promise<Seen[]> {
  const known = new Set(before.map(({ deliveryId }) => deliveryId));
  const found: Seen[] = [];
  const look = async (): Promise<number> => {
    // Reads no more deliveries than needed, because listing them uses memory of the service.
    for (const delivery of await calls.deliveries(count)) {
      if (known.has(delivery.id) || !ended.includes(delivery.state)) continue;
      known.add(delivery.id);
      found.push(toSeen(delivery));
    }
    return found.length;
  };
  await expect.poll(look, { interval: lookEveryMs, timeout: 60_000 }).toBe(count);
  return found;
}

function toSeen({ id, endpointId, attempts = [] }: ShownDelivery): Seen {
  const [attempt] = attempts;
  if (attempt === undefined || attempts.length > 1) throw new Error(`${id} has ${attempts.length} attempts`);
  return { endpointId, deliveryId: id, attempt, heldMs: Date.now() - Date.parse(attempt.startedAt) };
}

/** Samples the resident memory of a process, in bytes. */
function watchMemory(pid: number) {
  let peak = 0;
  const look = (): void => {
    const [, kib = "0"] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
    peak = Math.max(peak, Number(kib) * 1_024);
  };
  const timer = setInterval(look, 10);
  const close = (): void => clearInterval(timer);
  opened.push({ close });
  return {
    peak: () => peak,
    startAnew: () => {
      peak = 0;
    },
    close,
  };
}

function openFiles(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}
