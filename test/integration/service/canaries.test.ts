import { randomBytes } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { DashboardClient, jsonOf } from "../../conformance/security/dashboard-client.js";
import { eventually } from "../../support/eventually.js";
import { type Receiver, startReceiver } from "../../support/receivers/receiver.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { ServiceClient } from "../../support/service-client.js";
import { type ReadyLine, type ServeProcess, ServiceFolder } from "../../support/service-process.js";

let served: ServiceFolder;
let redis: RedisServer | null = null;
let receiver: Receiver;
beforeEach(async () => {
  served = await ServiceFolder.create();
  receiver = await startReceiver();
});
afterEach(async () => {
  await served.remove();
  await receiver.close();
  await redis?.remove();
  redis = null;
});

const masterKey = randomBytes(32);
const env = {
  LOG_LEVEL: "trace",
  UIS_ADMIN_TOKEN: "canary-admin-token-4711",
  UIS_ADMIN_PASSWORD: "canary-admin-password-4711",
  UIS_BOOTSTRAP_API_KEY: "canary-bootstrap-key-4711",
  UIS_MASTER_KEY: masterKey.toString("base64"),
  HF_TOKEN: "canary-upstream-secret-4711",
};
const words = {
  prompt: "canary-prompt-4711",
  answer: "canary-answer-4711",
  wrongKey: "sk-uis-canarycanarycanarycanarycanarycanarycanarycanary",
  wrongPassword: "canary-wrong-password-4711",
  wrongCookie: "canary-cookie-4711",
  wrongToken: "canary-setup-token-4711",
};

const failing = (code: string) => ({ text: words.answer, fail: { code, after_tokens: 1 } });
const config = {
  webhooks: { allow_http: true, allow_private_cidrs: ["127.0.0.0/8"] },
  requests: { keep: 1_000 },
  responses: { keep: "1h" },
  models: [
    { id: "good", engine: "scripted", scripted: { text: words.answer } },
    { id: "bad", engine: "scripted", scripted: failing("internal_error") },
    { id: "worse", engine: "scripted", scripted: failing("upstream_error") },
    { id: "embed", engine: "scripted", scripted: { dimensions: 4 } },
  ],
};
const message = [{ role: "user", content: words.prompt }];
const rpcMessage = { params: { model: "good", messages: [{ role: "ROLE_USER", content: [{ text: words.prompt }] }] } };

/** Registers a webhook endpoint for every request. Returns its secret, and the random part of the secret. */
async function register({ api }: ReadyLine): Promise<string[]> {
  const client = new ServiceClient(api, env.UIS_BOOTSTRAP_API_KEY);
  const { json } = await client.post("/v1/webhooks", {
    url: receiver.url,
    events: ["request.completed", "request.failed"],
  });
  const secret = String(json["secret"]);
  return [secret, secret.slice("whsec_".length)];
}

/** The bodies that the webhook receiver got. */
async function events(): Promise<Map<string, Buffer>> {
  await receiver.until(6);
  const bodies = receiver.requests.map(({ rawBody }) => rawBody);
  expect(bodies.some((body) => body.includes("request.failed"))).toBe(true);
  return new Map([["events", Buffer.concat(bodies)]]);
}

/** Sends valid and invalid inference requests of each kind. */
async function askAll({ api }: ReadyLine, key: string): Promise<void> {
  const client = new ServiceClient(api, key, { cookie: `uis_session=${words.wrongCookie}` });
  const statuses = [];
  for (const model of ["good", "bad", "worse", words.prompt]) {
    for (const stream of [false, true]) statuses.push((await client.chat(model, { messages: message, stream })).status);
  }
  expect(statuses).toEqual([200, 200, 500, 200, 502, 200, 404, 404]);
  const posts: [string, object | string][] = [
    ["/v1/completions", { model: "good", prompt: words.prompt }],
    ["/v1/embeddings", { model: "embed", input: words.prompt }],
    ["/v1/chat/completions", `{"model":"${words.prompt}`],
    ["/v1/chat/completions", { model: "good", messages: message, temperature: words.prompt }],
    ["/unified.inference.v1.InferenceService/CreateChatCompletion", rpcMessage],
    ["/unified.inference.v1.InferenceService/CreateChatCompletion", { params: { model: words.prompt } }],
    ["/unified.inference.v1.InferenceService/CreateChatCompletion", { [words.prompt]: words.prompt }],
  ];
  for (const [path, body] of posts) await client.post(path, body);
  for (const stream of [false, true]) {
    const { status, text } = await client.post("/v1/responses", { model: "good", input: words.prompt, stream });
    expect([status, text.includes(words.answer)]).toEqual([200, true]);
  }
}

/** Sends requests with wrong credentials, which must all fail with 401. */
async function failToEnter({ api }: ReadyLine): Promise<void> {
  for (const key of [words.wrongKey, `${env.UIS_BOOTSTRAP_API_KEY}x`]) {
    const intruder = new ServiceClient(api, key);
    expect((await intruder.get(`/v1/models?api_key=${words.wrongKey}`)).status).toBe(401);
    expect((await intruder.rpc("unified.admin.v1.ApiKeyService/ListApiKeys")).status).toBe(401);
  }
  const browser = new DashboardClient({ http: api.replace(/\/v1$/, "") });
  const signIn = { user: "admin", password: words.wrongPassword };
  expect((await browser.call("SessionService/SignIn", signIn)).status).toBe(401);
  const setUp = { token: words.wrongToken, password: words.wrongPassword };
  expect((await browser.call("SessionService/CompleteSetup", setUp)).status).toBe(401);
}

/** Creates and rotates keys, a setup link and a session as the administrator. Returns every secret of the answers. */
async function administer({ api }: ReadyLine): Promise<string[]> {
  const administrator = new ServiceClient(api, env.UIS_ADMIN_TOKEN);
  const rpc = async (name: string, body: object) => {
    const answer = await administrator.rpc(`unified.admin.v1.${name}`, body);
    expect([name, answer.status]).toEqual([name, 200]);
    return answer.json;
  };
  const made = await rpc("ApiKeyService/CreateApiKey", { name: "k", scope: "SCOPE_READ_WRITE" });
  const rotated = await rpc("ApiKeyService/RotateApiKey", { id: (made["apiKey"] as { id: string }).id });
  const link = await rpc("SessionService/CreateSetupLink", {});
  const browser = new DashboardClient({ http: api.replace(/\/v1$/, "") });
  const signIn = { user: "admin", password: env.UIS_ADMIN_PASSWORD };
  await eventually(
    async () => (await browser.call("SessionService/SignIn", signIn)).status === 200,
    "the password holds",
  );
  const sessions = await browser.call("SessionService/ListSessions");
  expect(jsonOf(sessions)["sessions"]).toHaveLength(1);
  const [setUpToken = ""] = /[0-9A-Za-z_-]{40,}/.exec(JSON.stringify(link)) ?? [];
  expect(setUpToken).not.toBe("");
  const cookie = browser.cookie?.split("=")[1] ?? "";
  expect(cookie).not.toBe("");
  return [String(made["secret"]), String(rotated["secret"]), setUpToken, cookie];
}

/** A secret in the encodings in which it could still be read. */
function formsOf(secret: string): Buffer[] {
  const texts = [secret, encodeURIComponent(secret), Buffer.from(secret).toString("base64")];
  return [...new Set(texts)].map((text) => Buffer.from(text));
}

function found(secrets: readonly string[], places: ReadonlyMap<string, Buffer>): string[] {
  return [...places].flatMap(([place, bytes]) =>
    secrets.filter((secret) => formsOf(secret).some((form) => bytes.includes(form))).map((it) => `${it} in ${place}`),
  );
}

/** Every file below a folder except those whose purpose is to store a secret. */
async function filesBelow(folder: string): Promise<Map<string, Buffer>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && !["admin.token", "master.key"].includes(entry.name));
  const paths = files.map(({ parentPath, name }) => join(parentPath, name));
  return new Map(await Promise.all(paths.map(async (path) => [path, await readFile(path)] as const)));
}

/** Pages for operators, and everything that the process has written to stdout and stderr. */
async function outputOf({ line, stdout, stderr }: ServeProcess & { readonly line: ReadyLine }) {
  const pages = new Map<string, Buffer>();
  for (const path of ["/metrics", "/ready", "/debug/state"]) {
    pages.set(path, Buffer.from(await (await fetch(line.ops + path)).text()));
  }
  return pages.set("the log", Buffer.from(stderr())).set("stdout", Buffer.from(stdout()));
}

const planted = [
  ...[env.UIS_ADMIN_TOKEN, env.UIS_ADMIN_PASSWORD, env.UIS_BOOTSTRAP_API_KEY, env.UIS_MASTER_KEY, env.HF_TOKEN],
  ...Object.values(words),
];

describe("planted secrets and prompts, after errors at log level trace", { timeout: 120_000 }, () => {
  it("are nowhere in the log, in pages for operators, in events or in any file of the embedded state (RSP-26, SEC-18, WH-13, WH-5)", async () => {
    const service = await served.start(config, { env });
    const webhookSecrets = await register(service.line);
    await askAll(service.line, env.UIS_BOOTSTRAP_API_KEY);
    await failToEnter(service.line);
    const secrets = [...planted, ...webhookSecrets, ...(await administer(service.line))];
    const told = await events();
    const files = await filesBelow(served.dataDir);
    // The search finds text that is stored unencrypted.
    expect([...files.keys()].some((path) => path.endsWith("uis.db"))).toBe(true);
    for (const text of ["read_write", "resp_"]) expect(found([text], files)).not.toEqual([]);
    expect(service.stderr().split("\n").length).toBeGreaterThan(10);
    expect(found(secrets, new Map([...files, ...told, ...(await outputOf(service))]))).toEqual([]);
    for (const bytes of files.values()) expect(bytes.includes(masterKey)).toBe(false);
  });

  it("are nowhere in the log, in the spool, in events or in any command to Redis (RSP-26, SEC-18, WH-13, WH-5)", async () => {
    redis = await startRedis({ acl: true, rules: "+config|get", args: ["--aof-use-rdb-preamble", "no"] });
    const { username, password } = new URL(redis.url);
    const service = await served.start(config, { env: { ...env, REDIS_URL: redis.url } });
    const webhookSecrets = await register(service.line);
    await askAll(service.line, env.UIS_BOOTSTRAP_API_KEY);
    await failToEnter(service.line);
    const administered = await administer(service.line);
    const secrets = [...planted, ...webhookSecrets, ...administered, decodeURIComponent(password)];
    const told = await events();
    const kept = await filesBelow(join(redis.folder, "appendonlydir"));
    expect(username).toBe("uis");
    for (const text of ["read_write", "resp_"]) expect(found([text], kept)).not.toEqual([]);

    await redis.kill();
    await askAll(service.line, env.UIS_BOOTSTRAP_API_KEY);
    await failToEnterWithout(service.line);
    const files = await filesBelow(served.dataDir);
    expect([...files].filter(([path, { length }]) => path.includes("spool") && length > 0)).not.toEqual([]);
    await eventually(() => service.stderr().includes("the store does not answer"), "the log tells of the outage");
    const places = new Map([...kept, ...files, ...told, ...(await outputOf(service))]);
    expect(found(secrets, places)).toEqual([]);
    for (const bytes of places.values()) expect(bytes.includes(masterKey)).toBe(false);
  });
});

/** Sends wrong credentials while the store is unavailable: the service cannot check them and may answer 503. */
async function failToEnterWithout({ api }: ReadyLine): Promise<void> {
  const intruder = new ServiceClient(api, words.wrongKey);
  expect([401, 503]).toContain((await intruder.get("/v1/models")).status);
  const browser = new DashboardClient({ http: api.replace(/\/v1$/, "") });
  expect((await browser.call("SessionService/SignIn", { user: "admin", password: words.wrongPassword })).status).toBe(
    503,
  );
}
