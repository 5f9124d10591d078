import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline/promises";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { allWays } from "../../conformance/cancel/ways.js";
import { type Api, createApi, eventsOf, expectError, type Reply } from "../../conformance/openai/api.js";
import { chatOf, createChatCompletion, streamChatCompletion } from "../../conformance/rpc/chat-requests.js";
import { openWay, wayNames } from "../../conformance/rpc/ways.js";
import { eventually } from "../../support/eventually.js";
import { hasPython, pythonVenv } from "../../support/python-venv.js";
import { type RunningService, startService } from "../../support/start-service.js";

const here = "test/support/upstream/ray";
const startMaxMs = 300_000;
const replicas = 2;
const perSecond = 50;
const loadMs = 20_000;
const killedAtMs = 5_000;

const said = (text: string) => ({ model: "chat", messages: [{ role: "user", content: text }] });

/** Ray Serve with two replicas of an application with OpenAI's API. */
class RayServe {
  readonly url: string;
  readonly #folder: string;
  readonly #stop: () => Promise<void>;

  private constructor(url: string, folder: string, stop: () => Promise<void>) {
    this.url = url;
    this.#folder = folder;
    this.#stop = stop;
  }

  static async start(): Promise<RayServe> {
    const python = await pythonVenv(join(here, "requirements.txt"));
    // A short path is used, because the length of paths of Ray's sockets is limited.
    const folder = await mkdtemp(join(tmpdir(), "ray-"));
    const port = await freePort();
    const child = spawn(python, [join(here, "app.py"), folder, String(port)], {
      stdio: ["pipe", "pipe", "ignore"],
      env: {
        ...process.env,
        RAY_AUTH_MODE: "disabled",
        RAY_USAGE_STATS_ENABLED: "0",
        RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S: "120",
      },
    });
    const exited = once(child, "exit");
    const lines = createInterface(child.stdout);
    const ready = (async () => {
      for await (const line of lines) if (line === "ready") return;
      throw new Error("Ray Serve has ended");
    })();
    await ready;
    child.stdout.resume();
    return new RayServe(`http://127.0.0.1:${port}/v1`, folder, async () => {
      child.stdin.end();
      await exited;
      await rm(folder, { recursive: true, force: true });
    });
  }

  /** Number of running requests of each process that has been a replica, by process id. */
  running(): ReadonlyMap<number, number> {
    const files = readdirSync(this.#folder).filter((name) => /^running-\d+$/.test(name));
    return new Map(
      files.map((name) => [Number(name.slice(8)), Number(readFileSync(join(this.#folder, name), "utf8"))]),
    );
  }

  stop(): Promise<void> {
    return this.#stop();
  }
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const address = probe.address();
  probe.close();
  if (address === null || typeof address === "string") throw new Error("no free port");
  return address.port;
}

// Needs python3 with venv, which not every machine has.
describe.skipIf(!hasPython)("Ray Serve with two replicas", () => {
  let ray: RayServe;
  let service: RunningService;
  let api: Api;
  const figures: Record<string, unknown> = {};

  beforeAll(async () => {
    ray = await RayServe.start();
    const deployment = { engine: "openai", upstream: "ray" };
    service = await startService({
      config: {
        upstreams: { ray: { url: ray.url, kind: "ray" } },
        models: [
          { id: "chat", ...deployment, slots: 16 },
          { id: "wide", ...deployment, model: "chat", slots: 128 },
          { id: "unknown", ...deployment, model: "other" },
        ],
      },
    });
    api = createApi(service);
  }, startMaxMs);
  afterAll(async () => {
    process.stdout.write(`Ray Serve: ${JSON.stringify(figures)}\n`);
    await service?.close();
    await ray?.stop();
  }, 60_000);

  const runningAll = (): number => [...ray.running().values()].reduce((sum, count) => sum + count, 0);

  it("answers chats, streamed or not, on every protocol with their usage (GRPC-2)", async () => {
    const text = "word0 word1 word2 ";
    const whole = await api.chat(said("one two"));
    expect(whole.json).toMatchObject({
      choices: [{ message: { content: text }, finish_reason: "stop" }],
      usage: { prompt_tokens: 2, completion_tokens: 3 },
    });
    const chunks = eventsOf((await api.chat({ ...said("one two"), stream: true })).text).slice(0, -1);
    expect(chunks.map(({ choices }) => choices[0].delta.content ?? "").join("")).toBe(text);
    for (const name of wayNames) {
      const way = openWay(name, service);
      const unary = await way.call(createChatCompletion, chatOf("chat"));
      expect([name, unary.messages[0]?.completion?.choices[0]?.message?.content]).toEqual([name, text]);
      const { messages } = await way.call(streamChatCompletion, chatOf("chat"));
      expect(messages.map(({ chunk }) => chunk?.choices[0]?.delta?.content ?? "").join("")).toBe(text);
      way.close();
    }
  });

  it("errors of the request are passed to the caller, and errors of the application become 502 (ERR-28)", async () => {
    expectError(await api.chat({ ...said("one"), temperature: 1.5 }), 400, "invalid_value");
    expectError(await api.chat({ ...said("one"), model: "unknown" }), 502, "upstream_error");
    for (const stream of [false, true])
      expectError(await api.chat({ ...said("crash"), stream }), 502, "upstream_error");
  });

  it("a client that disconnects frees its replica, streamed or not, on every protocol (REL-2)", async () => {
    const latenciesMs: number[] = [];
    for (const way of allWays(service)) {
      for (const kind of ["stream", "unary"] as const) {
        const sent = way.send({ model: "chat", kind, text: "pace 2000 10" });
        await eventually(() => runningAll() === 1, "a running request");
        const leftAtMs = performance.now();
        sent.leave();
        await eventually(() => runningAll() === 0, "idle replicas");
        latenciesMs.push(Math.round(performance.now() - leftAtMs));
        await sent.over;
      }
    }
    figures["ms until the replica is idle"] = latenciesMs;
    expect(Math.max(...latenciesMs)).toBeLessThan(5_000);
  });

  it("its plain-text 503 for too many requests becomes 503 with Retry-After (ERR-28)", async () => {
    const asked = Array.from({ length: 100 }, () => api.chat({ ...said("pace 10 200"), model: "wide" }));
    const replies = await Promise.all(asked);
    const refused = replies.filter(({ status }) => status !== 200);
    figures["overload"] = { asked: asked.length, refused: refused.length };
    expect(refused.length).toBeGreaterThan(10);
    for (const reply of refused) {
      expectError(reply, 503, "server_is_overloaded");
      expect(Number(reply.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
    }
  });

  it("a killed replica at 50 requests per second causes no failure before the first content", async () => {
    const replies: Promise<Reply & { readonly isStream: boolean }>[] = [];
    const startedAtMs = performance.now();
    let killed: number | null = null;
    let broken = 0;
    for (let sent = 0; performance.now() - startedAtMs < loadMs; sent += 1) {
      const isStream = sent % 2 === 0;
      replies.push(api.chat({ ...said("pace 6 15"), stream: isStream }).then((reply) => ({ ...reply, isStream })));
      await delay(startedAtMs + ((sent + 1) * 1_000) / perSecond - performance.now());
      if (killed !== null || performance.now() - startedAtMs < killedAtMs) continue;
      const [busiest] = [...ray.running()].sort(([, a], [, b]) => b - a);
      killed = busiest?.[0] ?? 0;
      broken = busiest?.[1] ?? 0;
      process.kill(killed, "SIGKILL");
    }
    const all = await Promise.all(replies);
    const failed = all.filter(({ status }) => status !== 200);
    const cut = all.filter(({ status, isStream, text }) => status === 200 && isStream && !text.endsWith("[DONE]\n\n"));
    const attempts = all.map(({ headers }) => Number(headers.get("x-uis-attempts") ?? 0));
    figures["killed replica"] = {
      requests: all.length,
      "requests of the replica": broken,
      "failed before content": failed.length,
      "streams that ended after content": cut.length,
      "with more than one attempt": attempts.filter((count) => count > 1).length,
    };
    expect(failed.map(({ status, text }) => [status, text])).toEqual([]);
    for (const { text } of cut) expect(text).toContain('"content":"word');
    expect(ray.running().size).toBeGreaterThan(replicas);
  }, 120_000);
});
