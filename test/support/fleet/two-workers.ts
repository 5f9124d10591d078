import { randomBytes } from "node:crypto";
import { request } from "node:http";
import { type RedisServer, startRedis } from "../redis/start-redis.js";
import { ServiceClient } from "../service-client.js";
import { ServiceFolder, type ServiceProcess } from "../service-process.js";

const adminToken = "administrator-of-two-workers";

/** A worker, as `/debug/state` shows it. */
export interface WorkerState {
  readonly worker: number;
  readonly pid: number;
  readonly state: "starting" | "ready";
}

/** An answer to a request over a new connection. */
export interface OwnAnswer {
  /** 0: the connection was refused or broke. */
  readonly status: number;
  readonly text: string;
  /** Error code of the connection; null without an error. */
  readonly fault: string | null;
}

/** A service with two workers and a new Redis. */
export class TwoWorkers {
  readonly service: ServiceProcess;
  readonly redis: RedisServer;
  readonly #folder: ServiceFolder;

  /** `config`: settings in addition to the number of workers and the address of Redis. */
  static async start(config: object): Promise<TwoWorkers> {
    const redis = await startRedis();
    const folder = await ServiceFolder.create();
    const env = { UIS_MASTER_KEY: randomBytes(32).toString("base64"), UIS_ADMIN_TOKEN: adminToken };
    const all = { ...config, server: { workers: 2 }, state: { redis_url: redis.url } };
    return new TwoWorkers(await folder.start(all, { env }), redis, folder);
  }

  private constructor(service: ServiceProcess, redis: RedisServer, folder: ServiceFolder) {
    this.service = service;
    this.redis = redis;
    this.#folder = folder;
  }

  /** Path of the configuration file. */
  get configFile(): string {
    return `${this.#folder.folder}/uis.yaml`;
  }

  /** The workers in the order of their numbers; those that have ended and are not yet replaced are missing. */
  async workers(): Promise<readonly WorkerState[]> {
    return ((await this.service.debugState()) as unknown as { workers: readonly WorkerState[] }).workers;
  }

  /** The secret of a new key in an account of its own. */
  async newKey(account: string): Promise<string> {
    const admin = new ServiceClient(this.service.line.api, adminToken);
    const key = { name: account, account, scope: "SCOPE_READ_WRITE" };
    return String((await admin.rpc("unified.admin.v1.ApiKeyService/CreateApiKey", key)).json["secret"]);
  }

  /** A chat over a new connection, so that the workers answer in turn. */
  chat(key: string, model: string, isStreamed = false): Promise<OwnAnswer> {
    const body = { model, stream: isStreamed, messages: [{ role: "user", content: "one two" }] };
    return new Promise((resolve) => {
      let text = "";
      const end = (status: number, fault: string | null) => resolve({ status, text, fault });
      const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
      const url = `${this.service.http}/v1/chat/completions`;
      const asked = request(url, { method: "POST", headers, agent: false }, (response) => {
        response.setEncoding("utf8").on("data", (part: string) => {
          text += part;
        });
        response.on("error", (error: NodeJS.ErrnoException) => end(response.statusCode ?? 0, error.code ?? "error"));
        response.on("end", () => end(response.statusCode ?? 0, null));
      });
      asked.on("error", (error: NodeJS.ErrnoException) => end(0, error.code ?? "error"));
      asked.end(JSON.stringify(body));
    });
  }

  /** The answer of `/ready` on the listener for operators. */
  async ready(): Promise<{ readonly status: number; readonly detail: Readonly<Record<string, unknown>> }> {
    const response = await fetch(`${this.service.ops}/ready`);
    return { status: response.status, detail: (await response.json()) as Record<string, unknown> };
  }

  /** Numbers of the workers that logged a request since line `from` of the log. */
  answering(from = 0): ReadonlySet<unknown> {
    const requests = this.service
      .logs()
      .slice(from)
      .filter(({ msg }) => msg === "request");
    return new Set(requests.map(({ worker }) => worker));
  }

  async remove(): Promise<void> {
    await this.#folder.remove();
    await this.redis.remove();
  }
}
