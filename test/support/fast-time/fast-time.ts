import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { fastClock } from "../redis/fast-clock.js";
import type { FastRequest, ReceiverMessage } from "./receiver-message.js";

const patientStore = new URL("./patient-store.mjs", import.meta.url).href;
const receiverProgram = fileURLToPath(new URL("./failing-receiver.ts", import.meta.url));
/** Number of answers of which the fastest is used to read the clock. */
const readings = 50;

interface Parts {
  readonly child: ChildProcess;
  readonly speed: number;
  readonly url: string;
  readonly env: Readonly<Record<string, string>>;
  readonly requests: readonly FastRequest[];
}

/**
 * A time that runs many times faster than real time, for all processes started with `env`: wall clock, monotonic
 * clock and timers. One `faketime` controls it, because the clocks of several would drift apart. It runs a receiver of
 * webhooks from the start.
 */
export class FastTime {
  readonly speed: number;
  /** Base URL of the receiver, with a trailing slash. It answers 500 after 3 s of fast time. */
  readonly url: string;
  /** The received requests, in order. */
  readonly requests: readonly FastRequest[];
  /** Environment of a service. Only its timeouts for Redis stay in real time. */
  readonly env: Readonly<Record<string, string>>;
  /** Environment of a Redis server, which hangs under `faketime`: its wall clock is fast, its timers run in real time. */
  readonly redisEnv: Readonly<Record<string, string>>;
  readonly #child: ChildProcess;
  readonly #folder: string;
  /** The moment at which real and fast time were equal. */
  readonly #begunAtMs: number;

  /** Needs `faketime` and `gcc`. */
  static async start(speed: number): Promise<FastTime> {
    const child = fork(receiverProgram, {
      execPath: "faketime",
      execArgv: ["-f", `+0 x${speed}`, process.execPath, "--import", import.meta.resolve("tsx")],
      // A process that is started later begins at the current fast time.
      env: { ...process.env, FAKETIME_DONT_RESET: "1" },
    });
    const requests: FastRequest[] = [];
    child.on("message", (message: ReceiverMessage) => {
      if ("request" in message) requests.push(message.request);
    });
    const ended = once(child, "exit").then(([code]) => {
      throw new Error(`the receiver in fast time ended with ${code}`);
    });
    const [message] = (await Promise.race([once(child, "message"), ended])) as [ReceiverMessage];
    // From here on the end of the process is no error.
    ended.catch(() => {});
    if (!("ready" in message)) throw new Error(`unexpected: ${JSON.stringify(message)}`);
    return new FastTime({ child, speed, requests, ...message.ready }, await beginningOf(child, speed));
  }

  private constructor({ child, speed, url, env, requests }: Parts, begunAtMs: number) {
    this.#child = child;
    this.#folder = mkdtempSync(join(tmpdir(), "uis-fast-"));
    this.#begunAtMs = begunAtMs;
    this.speed = speed;
    this.url = url;
    this.requests = requests;
    this.env = { ...env, STORE_PATIENCE: String(speed), NODE_OPTIONS: `--import=${patientStore}` };
    this.redisEnv = fastClock(this.#folder, speed, begunAtMs);
  }

  /** Current wall-clock time of the fast processes. */
  now(): number {
    return this.#begunAtMs + (Date.now() - this.#begunAtMs) * this.speed;
  }

  /** Resolves when the received requests meet the condition; rejects after the given span of fast time. */
  async until(condition: () => boolean, what: string, patienceMs: number): Promise<void> {
    const timeout = AbortSignal.timeout(patienceMs / this.speed);
    while (!condition()) {
      await once(this.#child, "message", { signal: timeout }).catch(() => {
        throw new Error(`timed out waiting for: ${what}`);
      });
    }
  }

  /** Resolves when the given span of fast time has passed. */
  async pass(ms: number): Promise<void> {
    await delay(ms / this.speed);
  }

  end(): void {
    this.#child.disconnect();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** The real time at which the child's fast clock started, to a fraction of a millisecond. */
async function beginningOf(child: ChildProcess, speed: number): Promise<number> {
  let best = { tookMs: Number.POSITIVE_INFINITY, begunAtMs: 0 };
  for (let reading = 0; reading < readings; reading += 1) {
    const askedAtMs = nextMillisecond();
    const sinceMs = performance.now();
    child.send("what time is it?");
    const [message] = (await once(child, "message")) as [ReceiverMessage];
    const tookMs = performance.now() - sinceMs;
    if (!("nowMs" in message)) throw new Error(`unexpected: ${JSON.stringify(message)}`);
    const trueMs = askedAtMs + tookMs / 2;
    if (tookMs < best.tookMs) best = { tookMs, begunAtMs: (speed * trueMs - message.nowMs) / (speed - 1) };
  }
  return best.begunAtMs;
}

/** The wall clock immediately after it changes, so that rounding loses nothing. */
function nextMillisecond(): number {
  const now = Date.now();
  while (Date.now() === now);
  return Date.now();
}
