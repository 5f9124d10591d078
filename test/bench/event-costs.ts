import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { httpRequest, median } from "./http-request.js";
import { type PinnedProcess, startPinned } from "./pinned-process.js";
import { load } from "./raw-client.js";

const connections = 32;
const warmUpSeconds = 4;
/** Share of the highest request rate at which the deliveries of one endpoint are measured. */
const keepUpShare = 0.8;
const keepUpSeconds = 5;
/** The client may sleep, because the receiver runs on its core. */
const staysAwake = false;
const endpointCounts = [0, 1, 16, 50] as const;
const adminToken = `adm_${"0123456789".repeat(4)}`;

interface EventCostOptions {
  /** Folder of the build, such as `dist`. */
  readonly build: string;
  readonly folder: string;
  readonly core: number;
  readonly receiverPort: number;
  readonly seconds: number;
  readonly repeats: number;
}

/** A service with one account that has endpoints. */
interface Subject {
  readonly service: PinnedProcess;
  readonly port: number;
  readonly ops: string;
  readonly chat: Buffer;
}

/**
 * Requests per second, and processor time of all threads for one request, of accounts with 0, 1, 16 and 50 endpoints on the
 * embedded file; and the deliveries to one endpoint at 0.8 of its highest request rate, at the end of the requests. Each
 * account has a service of its own, so that the deliveries of one do not count as costs of another.
 */
export async function eventCosts(options: EventCostOptions): Promise<object> {
  const accounts: object[] = [];
  let atShare: object = {};
  for (const endpoints of endpointCounts) {
    const subject = await start(endpoints, options);
    try {
      await measure(subject, warmUpSeconds);
      const found: Measured[] = [];
      for (let round = 0; round < options.repeats; round++) found.push(await measure(subject, options.seconds));
      const rate = median(found.map((each) => each.rate));
      const cpuUs = Math.round(median(found.map((each) => each.cpuUs)));
      accounts.push({ endpoints, requests_per_second: Math.round(rate), cpu_us_per_request: cpuUs });
      if (endpoints === 1) atShare = await keepUp(subject, keepUpShare * rate, options);
    } finally {
      await subject.service.stop();
    }
  }
  return { accounts, keep_up: atShare };
}

interface Measured {
  readonly rate: number;
  readonly cpuUs: number;
}

async function measure({ service, port, chat }: Subject, seconds: number): Promise<Measured> {
  const before = service.cpuMs();
  const { answers, failures, seconds: took } = await load(port, chat, connections, seconds, staysAwake);
  if (failures > 0) throw new Error(`${failures} of ${answers} answers were not 200`);
  return { rate: answers / took, cpuUs: ((service.cpuMs() - before) * 1_000) / answers };
}

async function start(endpoints: number, { build, folder, core, receiverPort }: EventCostOptions): Promise<Subject> {
  const dataDir = join(folder, `event-costs-${endpoints}`);
  mkdirSync(dataDir, { recursive: true });
  const config = join(dataDir, "uis.yaml");
  const models = [
    { id: "test-chat", engine: "scripted", slots: 64, scripted: { text: "one two three four five", tokens: 200 } },
  ];
  const webhooks = { allow_http: true, allow_private_cidrs: ["127.0.0.1/32"], endpoints_max: 50 };
  writeFileSync(config, JSON.stringify({ models, webhooks }));
  const env = {
    ...process.env,
    UIS_DATA_DIR: dataDir,
    UIS_ADMIN_TOKEN: adminToken,
    UIS_OFFLINE: "1",
    LOG_LEVEL: "error",
  };
  const ports = ["--port", "0", "--grpc-port", "0", "--ops-port", "0"];
  const cli = join(build, "app/cli.js");
  const service = await startPinned(core, [cli, "serve", "--json", "--config", config, ...ports], env);
  const api = new URL(String(service.ready["api"]));
  const chat = await chatOf(api, endpoints, receiverPort);
  return { service, port: Number(api.port), ops: String(service.ready["ops"]), chat };
}

/** Creates an account with this number of endpoints. Returns a chat of its key. */
async function chatOf(api: URL, endpoints: number, receiverPort: number): Promise<Buffer> {
  const post = async (path: string, token: string, body: object): Promise<Record<string, unknown>> => {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const answer = await fetch(new URL(path, api), { method: "POST", headers, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${await answer.text()}`);
    return (await answer.json()) as Record<string, unknown>;
  };
  const account = `with-${endpoints}`;
  const wanted = { name: account, account, scope: "SCOPE_READ_WRITE" };
  const key = String((await post("/unified.admin.v1.ApiKeyService/CreateApiKey", adminToken, wanted))["secret"]);
  for (let made = 0; made < endpoints; made++) {
    await post("/v1/webhooks", key, { url: `http://127.0.0.1:${receiverPort}/`, events: ["request.completed"] });
  }
  const messages = [{ role: "user", content: "Say the five words." }];
  return httpRequest("/v1/chat/completions", key, { model: "test-chat", messages });
}

/** Measures the rate of an endpoint's deliveries, and the processor time of a request with its delivery. */
async function keepUp(subject: Subject, rate: number, options: EventCostOptions): Promise<object> {
  const { service, port, ops, chat } = subject;
  while ((await openOf(ops)) > 0) await delay(100);
  const taken = async (): Promise<number> => {
    const counts = (await (await fetch(`http://127.0.0.1:${options.receiverPort}/`)).json()) as { taken: number };
    return counts.taken;
  };
  const [before, cpuBefore] = [await taken(), service.cpuMs()];
  const duration = Math.max(keepUpSeconds, options.seconds);
  const { answers, seconds } = await load(port, chat, connections, duration, staysAwake, rate);
  const [delivered, cpuMs] = [(await taken()) - before, service.cpuMs() - cpuBefore];
  return {
    requests_per_second: Math.round(answers / seconds),
    delivered_at_the_end: Number((delivered / answers).toFixed(3)),
    cpu_us_per_request_and_delivery: Math.round((cpuMs * 1_000) / answers),
  };
}

/** The number of deliveries that have not ended and of events whose deliveries are not created yet. */
async function openOf(ops: string): Promise<number> {
  const page = await (await fetch(`${ops}/metrics`)).text();
  const lines = page.matchAll(/^uis_webhook_(?:backlog\{[^}]*\}|events_waiting) (\d+)/gm);
  return [...lines].reduce((sum, [, count]) => sum + Number(count), 0);
}
