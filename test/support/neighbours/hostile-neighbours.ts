import { rm } from "node:fs/promises";
import { Agent, request } from "node:http";
import { type ClientHttp2Session, connect } from "node:http2";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { hangingNames, names, startHangingReceiver, type Target } from "./scene.js";

export interface HostileNeighbour {
  readonly name: string;
  /** The neighbour uses the embedded engine, so the polite streams use it, too. */
  readonly usesEngine?: boolean;
  /** Runs until the signal is aborted. */
  readonly run: (target: Target, signal: AbortSignal) => Promise<void>;
}

const mebibyte = 1_048_576;
const bodyBytes = 20 * mebibyte - 1_024;

/** Every kind of neighbour that has slowed the service down once (E-1 to E-4, E-10 to E-15). */
export const hostileNeighbours: readonly HostileNeighbour[] = [
  {
    name: "20 MB of unknown protobuf fields, no key",
    run: (target, signal) => repeat(5, signal, unknownFields(target)),
  },
  { name: "20 MB of JSON, no key", run: (target, signal) => repeat(5, signal, nestedJson(target)) },
  { name: "120 unfinished gRPC messages", run: unfinishedMessages },
  { name: "prompts of 4 MB", usesEngine: true, run: (target, signal) => repeat(6, signal, longPrompt(target, 4)) },
  { name: "prompts of 20 MB", usesEngine: true, run: (target, signal) => repeat(2, signal, longPrompt(target, 19)) },
  { name: "usage queries", run: (target, signal) => repeat(20, signal, usagePages(target, null)) },
  { name: "usage queries, hung up after 30 ms", run: (target, signal) => repeat(20, signal, usagePages(target, 30)) },
  { name: "20 hanging receivers", run: hangingReceivers },
  { name: "20 hanging host names", run: hangingHosts },
  { name: "chats with 128 tools", run: (target, signal) => repeat(2, signal, chatWithTools(target)) },
  { name: "chats of 10 MB", run: (target, signal) => repeat(2, signal, largeChat(target)) },
  { name: "/metrics of all models", run: metricsPages },
  { name: "backups", run: backups },
  { name: "lists of all API keys", run: (target, signal) => repeat(4, signal, keyLists(target)) },
  { name: "wrong passwords", run: (target, signal) => repeat(8, signal, wrongPassword(target)) },
];

type Attack = (round: number, signal: AbortSignal) => Promise<unknown>;

/** Repeats the attack in `atOnce` concurrent loops, with a short pause because a rejected attack ends quickly. */
async function repeat(atOnce: number, signal: AbortSignal, attack: Attack): Promise<void> {
  const loop = async (): Promise<void> => {
    for (let round = 0; !signal.aborted; round += 1) {
      await attack(round, signal).catch(() => {});
      await delay(5);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, loop));
}

const agent = new Agent({ keepAlive: true });

interface Post {
  readonly key?: string;
  readonly type?: string;
  readonly body?: Buffer | string;
  readonly method?: string;
  /** Time after which the client disconnects. */
  readonly leaveAfterMs?: number | null;
}

/** Sends a request. Resolves with status and text; rejects without an answer. */
function send(url: string, options: Post, signal: AbortSignal | null): Promise<{ status: number; text: string }> {
  const { key, type = "application/json", body = "", method = "POST", leaveAfterMs = null } = options;
  return new Promise((resolve, reject) => {
    const headers = { "content-type": type, "content-length": Buffer.byteLength(body) };
    const authorization = key === undefined ? {} : { authorization: `Bearer ${key}` };
    const sent = request(url, {
      method,
      agent,
      headers: { ...headers, ...authorization },
      ...(signal === null ? {} : { signal }),
    });
    const timer = leaveAfterMs === null ? null : setTimeout(() => sent.destroy(), leaveAfterMs);
    sent.once("error", reject);
    sent.once("close", () => {
      if (timer !== null) clearTimeout(timer);
      reject(new Error("closed"));
    });
    sent.once("response", (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.once("end", () => resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() }));
      response.once("error", reject);
    });
    sent.end(body);
  });
}

function unknownFields({ http }: Target): Attack {
  const body = Buffer.alloc(bodyBytes, Buffer.from("7800", "hex"));
  const rpcs = ["SignIn", "CompleteSetup"];
  return (round, signal) =>
    send(
      `${http}/unified.admin.v1.SessionService/${rpcs[round % rpcs.length]}`,
      { type: "application/proto", body },
      signal,
    );
}

function nestedJson({ http }: Target): Attack {
  const body = Buffer.concat([Buffer.from('{"a":['), Buffer.alloc(bodyBytes, "[],")]);
  const paths = ["/v1/chat/completions", "/unified.admin.v1.SessionService/SignIn"];
  return (round, signal) => send(http + paths[round % paths.length], { body }, signal);
}

/**
 * Two connections with 60 calls each, whose messages of 19 MB lack their last byte. The bytes are written one mebibyte after
 * another: Node counts what is queued for closed streams, too, and would reset all streams of a connection after 4 GB.
 */
async function unfinishedMessages({ grpc, key }: Target, signal: AbortSignal): Promise<void> {
  const announced = 19 * mebibyte;
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(announced, 1);
  const part = Buffer.alloc(mebibyte);
  const call = (session: ClientHttp2Session, isKnown: boolean): Promise<void> =>
    new Promise((resolve) => {
      const stream = session.request({
        ":method": "POST",
        ":path": "/unified.inference.v1.InferenceService/CreateChatCompletion",
        "content-type": "application/grpc+proto",
        te: "trailers",
        ...(isKnown ? { authorization: `Bearer ${key}` } : {}),
      });
      stream.on("error", () => {}).once("close", () => resolve());
      stream.resume();
      stream.write(prefix);
      let left = announced - 1;
      const writeNext = (): void => {
        if (left === 0 || stream.destroyed) return;
        const next = part.subarray(0, left);
        left -= next.length;
        stream.write(next, writeNext);
      };
      writeNext();
    });
  const connection = async (): Promise<void> => {
    while (!signal.aborted) {
      const session = connect(`http://${grpc}`, { maxSessionMemory: 4_000 });
      const closed = new Promise<void>((resolve) => session.once("close", () => resolve()));
      const close = (): void => session.destroy();
      session.on("error", close);
      signal.addEventListener("abort", close);
      const calls = Array.from({ length: 60 }, async (_, i) => {
        while (!session.destroyed) {
          await call(session, i % 2 === 0).catch(() => {});
          await delay(20);
        }
      });
      await Promise.race([closed, Promise.all(calls)]);
      signal.removeEventListener("abort", close);
    }
  };
  await Promise.all([connection(), connection()]);
}

function longPrompt({ http, key }: Target, mebibytes: number): Attack {
  const text = "the of and to ".repeat((mebibytes * mebibyte) / 14);
  const prompt = JSON.stringify({ model: names.computed, prompt: text, max_tokens: 4 });
  const chat = JSON.stringify({ model: names.computed, messages: [{ role: "user", content: text }], max_tokens: 4 });
  return (round, signal) =>
    round % 2 === 0
      ? send(`${http}/v1/completions`, { key, body: prompt }, signal)
      : send(`${http}/v1/chat/completions`, { key, body: chat }, signal);
}

function usagePages({ http, key }: Target, leaveAfterMs: number | null): Attack {
  const start = Math.floor(Date.now() / 1_000) - 79 * 86_400;
  const query = `start_time=${start}&bucket_width=1h&limit=168&group_by=model,key`;
  return async (_, signal) => {
    for (let page = ""; !signal.aborted; ) {
      const url = `${http}/v1/usage?${query}${page === "" ? "" : `&page=${page}`}`;
      const { status, text } = await send(url, { key, method: "GET", leaveAfterMs }, signal);
      const next = status === 200 ? (JSON.parse(text) as { next_page: string | null }).next_page : null;
      if (next === null) return;
      page = next;
    }
  };
}

async function hangingReceivers(target: Target, signal: AbortSignal): Promise<void> {
  const receiver = await startHangingReceiver();
  const urls = Array.from({ length: 20 }, (_, i) => `http://127.0.0.1:${receiver.port}/${i}`);
  await eventsTo(target, urls, signal);
  receiver.close();
}

async function hangingHosts(target: Target, signal: AbortSignal): Promise<void> {
  await eventsTo(
    target,
    hangingNames().map((name) => `http://${name}:8081/`),
    signal,
  );
}

/** Registers endpoints and sends chats, whose events go to all of them. */
async function eventsTo({ http, key }: Target, urls: readonly string[], signal: AbortSignal): Promise<void> {
  const body = (value: object): string => JSON.stringify(value);
  const created = await Promise.all(
    urls.map((url) => send(`${http}/v1/webhooks`, { key, body: body({ url, events: ["request.completed"] }) }, null)),
  );
  const refused = created.find(({ status }) => status >= 300);
  if (refused !== undefined) throw new Error(`no endpoint: ${refused.text}`);
  const chat = body({ model: names.chat, messages: [{ role: "user", content: "Hi" }] });
  await repeat(1, signal, async () => {
    await send(`${http}/v1/chat/completions`, { key, body: chat }, signal);
    await delay(45);
  });
  for (const { text } of created) {
    const { id } = JSON.parse(text) as { id: string };
    await send(`${http}/v1/webhooks/${id}`, { key, method: "DELETE" }, null);
  }
}

function chatWithTools({ http, key }: Target): Attack {
  const properties = Object.fromEntries(
    Array.from({ length: 6 }, (_, i) => [`field_${i}`, { type: "string", description: `Value ${i} of the call` }]),
  );
  const tools = Array.from({ length: 128 }, (_, i) => ({
    type: "function",
    function: { name: `tool_${i}`, description: "A tool", parameters: { type: "object", properties } },
  }));
  const body = JSON.stringify({ model: names.chat, messages: [{ role: "user", content: "Hi" }], tools });
  return (_, signal) => send(`${http}/v1/chat/completions`, { key, body }, signal);
}

function largeChat({ http, key }: Target): Attack {
  const content = "the of and to ".repeat((10 * mebibyte) / 14);
  const body = JSON.stringify({ model: names.chat, messages: [{ role: "user", content }], max_tokens: 4 });
  return (_, signal) => send(`${http}/v1/chat/completions`, { key, body }, signal);
}

/** Uses every model once, so that each has metrics, and then requests pages of metrics. */
async function metricsPages({ http, ops, key, models }: Target, signal: AbortSignal): Promise<void> {
  for (let i = 0; i < models && !signal.aborted; i += 1) {
    const body = JSON.stringify({ model: `model-${i}`, messages: [{ role: "user", content: "Hi" }] });
    await send(`${http}/v1/chat/completions`, { key, body }, signal).catch(() => {});
  }
  await repeat(1, signal, async () => {
    await send(`${ops}/metrics`, { method: "GET" }, signal);
    await delay(95);
  });
}

async function backups({ http, adminToken, folder }: Target, signal: AbortSignal): Promise<void> {
  const path = join(folder, "backup.db");
  await repeat(1, signal, async () => {
    const body = JSON.stringify({ path });
    await send(`${http}/unified.admin.v1.SystemService/CreateBackup`, { key: adminToken, body }, signal);
    await rm(path, { force: true });
  });
  await rm(path, { force: true });
}

/** A search that no key matches examines all of them. */
function keyLists({ http, adminToken }: Target): Attack {
  return async (_, signal) => {
    for (let pageToken = ""; !signal.aborted; ) {
      const body = JSON.stringify({ search: "matches no key", pageSize: 1_000, pageToken });
      const url = `${http}/unified.admin.v1.ApiKeyService/ListApiKeys`;
      const { text } = await send(url, { key: adminToken, body }, signal);
      pageToken = (JSON.parse(text) as { nextPageToken?: string }).nextPageToken ?? "";
      if (pageToken === "") return;
    }
  };
}

function wrongPassword({ http }: Target): Attack {
  return (round, signal) => {
    const body = JSON.stringify({ user: "admin", password: `wrong password ${round}` });
    return send(`${http}/unified.admin.v1.SessionService/SignIn`, { body }, signal);
  };
}
