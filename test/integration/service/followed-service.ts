import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect } from "vitest";
import { verifyWebhook } from "../../../src/lib/webhook-signature.js";
import { eventually } from "../../support/eventually.js";
import type { FastTime } from "../../support/fast-time/fast-time.js";
import type { FastRequest } from "../../support/fast-time/receiver-message.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { type ClientAnswer, ServiceClient } from "../../support/service-client.js";
import { type ServiceProcess, startServiceProcess } from "../../support/service-process.js";

export const drivers = ["embedded", "redis"] as const;
export type Driver = (typeof drivers)[number];

const secondMs = 1_000;
/** Additional patience in real time, because other work slows this machine. */
const truePatienceMs = 20_000;
const startsMax = 10;
/** Real time between two attempts of a request. */
const betweenTriesMs = 20;
/** Real time between two events, so that an interruption of this machine delays at most two of them. */
const betweenEventsMs = 350;
const adminToken = "admin-token-of-this-test";
/** Configured for each start, because a start that creates a key and then fails does not show the key. */
const apiKey = "sk-schedule-00000000000000000000";
const masterKey = randomBytes(32).toString("base64");

export interface AttemptRecord {
  readonly number: number;
  readonly trigger: string;
  readonly by?: string;
  readonly startedAt: string;
  readonly latencyMs: string;
  readonly status?: number;
}

/** A delivery as `DeliveryService` returns it over JSON. */
export interface DeliveryRecord {
  readonly id: string;
  readonly state: string;
  readonly reason?: string;
  readonly attemptsMade: number;
  readonly nextAttemptAt?: string;
  readonly attempts: readonly AttemptRecord[];
}

const deliveryService = "unified.webhook.v1.DeliveryService";

/** A whole service in fast time, with deliveries to an endpoint that fails. */
export class FollowedService {
  readonly time: FastTime;
  readonly #folder: string;
  readonly driver: Driver;
  readonly #path: string;
  readonly #redis: RedisServer | null;
  #service: ServiceProcess | null = null;
  #secret = "";

  /** Starts a service whose files are in a folder of `root`. */
  static async in(root: string, driver: Driver, time: FastTime): Promise<FollowedService> {
    const redis = driver === "redis" ? await startRedis({ env: time.redisEnv }) : null;
    const service = new FollowedService(join(root, `${driver}-${time.speed}`), driver, time, redis);
    await service.#startService();
    return service;
  }

  private constructor(folder: string, driver: Driver, time: FastTime, redis: RedisServer | null) {
    this.time = time;
    this.#folder = folder;
    this.driver = driver;
    this.#path = `/${driver}`;
    this.#redis = redis;
  }

  /** Sends requests that cause the given number of events, one after another. */
  async begin(events: number): Promise<void> {
    const client = new ServiceClient(this.#running.http, apiKey);
    const wanted = { url: new URL(this.#path, this.time.url).href, events: ["request.completed"] };
    const made = await answerTo(() => client.post("/v1/webhooks", wanted));
    expect(made.status).toBe(200);
    this.#secret = String(made.json["secret"]);
    await this.#deleteOthers(client, String(made.json["id"]));
    for (let event = 0; event < events; event += 1) {
      expect((await answerTo(() => client.chat("m"))).status).toBe(200);
      await delay(betweenEventsMs);
    }
  }

  /** Stops or kills the service and starts it again. */
  async restart(how: "stop" | "kill"): Promise<void> {
    if (how === "stop") expect(await this.#ended().stop()).toBe(0);
    else await this.#ended().kill();
    await this.#startService();
  }

  /** Restarts the service and its store, with both down in between. */
  async restartWithStore(): Promise<void> {
    await this.#ended().kill();
    await this.#redis?.kill();
    await this.#redis?.restart();
    await this.#startService();
  }

  async remove(): Promise<void> {
    await this.#service?.kill();
    await this.#redis?.remove();
  }

  /** All deliveries, oldest first. */
  async records(): Promise<DeliveryRecord[]> {
    const { status, json, text } = await this.#asAdmin("ListDeliveries");
    if (status !== 200) throw new Error(`ListDeliveries: ${status} ${text}`);
    return (json["deliveries"] as DeliveryRecord[]).toReversed();
  }

  /** Resolves with the records once each has `count` failed attempts; the last one must arrive within `withinMs`. */
  async failed(count: number, withinMs = 0): Promise<DeliveryRecord[]> {
    const isTried = () => this.requests.some(({ headers }) => headers["service-attempt"] === String(count));
    const patienceMs = withinMs + truePatienceMs * this.time.speed;
    await this.time.until(isTried, `attempt ${count}, ${this.driver}`, patienceMs);
    let records: DeliveryRecord[] = [];
    const areNoted = async () => {
      await this.time.pass(secondMs);
      records = await this.records();
      return records.every(({ attemptsMade, state }) => attemptsMade === count && state !== "delivery_attempted");
    };
    await eventually(areNoted, `the end of all attempts ${count}, ${this.driver}`, truePatienceMs);
    return records;
  }

  async retry({ id }: DeliveryRecord): Promise<void> {
    expect((await this.#asAdmin("RetryDelivery", { id })).status).toBe(200);
  }

  get requests(): readonly FastRequest[] {
    return this.time.requests.filter(({ path }) => path === this.#path);
  }

  /**
   * The request of an attempt; the last one if the attempt was repeated after its lease ended. Null: no request arrived
   * in time.
   */
  requestOf({ id }: DeliveryRecord, attempt: number): FastRequest | null {
    const isIt = ({ headers }: FastRequest) =>
      headers["service-delivery-id"] === id && headers["service-attempt"] === String(attempt);
    return this.requests.findLast(isIt) ?? null;
  }

  /** `t` of the request's signature, in milliseconds; rounded down to the second. */
  signedAtMs({ headers, body, arrivedAtMs }: FastRequest): number {
    const header = String(headers["service-signature"]);
    const verified = verifyWebhook({ secret: this.#secret, header, body, nowS: arrivedAtMs / secondMs });
    if (!verified.valid) throw new Error(`${header}: ${verified.reason}`);
    return verified.timestampS * secondMs;
  }

  /** Deletes the endpoints of earlier tries, whose answers were lost: they would get the events too, signed with other secrets. */
  async #deleteOthers(client: ServiceClient, id: string): Promise<void> {
    const { json } = await answerTo(() => client.get("/v1/webhooks"));
    for (const other of json["data"] as { id: string }[]) {
      if (other.id !== id) await answerTo(() => client.delete(`/v1/webhooks/${other.id}`));
    }
  }

  async #startService(): Promise<void> {
    const state = this.#redis === null ? {} : { redis_url: this.#redis.url };
    const config = {
      state,
      models: [{ id: "m", engine: "scripted", scripted: { text: "three words here" } }],
      webhooks: { allow_http: true, allow_private_cidrs: ["127.0.0.0/8"] },
    };
    const secrets = { UIS_ADMIN_TOKEN: adminToken, UIS_BOOTSTRAP_API_KEY: apiKey, UIS_MASTER_KEY: masterKey };
    const env = { ...this.time.env, ...secrets };
    for (let tries = 1; this.#service === null; tries += 1) {
      try {
        this.#service = await startServiceProcess({ folder: this.#folder, config, env });
      } catch (error) {
        // The 5 s that a start waits for Redis are short in real time, so the test starts it again, like a supervisor.
        if (this.#redis === null || tries === startsMax) throw error;
      }
    }
  }

  get #running(): ServiceProcess {
    if (this.#service === null) throw new Error("the service is not started");
    return this.#service;
  }

  /** Returns the running service, to be stopped, and marks it as ended. */
  #ended(): ServiceProcess {
    const running = this.#running;
    this.#service = null;
    return running;
  }

  #asAdmin(rpc: string, message: object = {}): Promise<ClientAnswer> {
    const client = new ServiceClient(this.#running.http, adminToken);
    return answerTo(() => client.rpc(`${deliveryService}/${rpc}`, message));
  }
}

/**
 * Repeats a request that failed because of time. This process runs in real time, so in fast time it can seem to stall in
 * the middle of a request (408), an idle connection is closed within milliseconds (a failed fetch), and a store's answer
 * is late (503).
 */
async function answerTo(ask: () => Promise<ClientAnswer>): Promise<ClientAnswer> {
  for (const endsAtMs = performance.now() + truePatienceMs; ; await delay(betweenTriesMs)) {
    const isLast = performance.now() >= endsAtMs;
    try {
      const answer = await ask();
      if ((answer.status !== 408 && answer.status !== 503) || isLast) return answer;
    } catch (error) {
      if (isLast) throw error;
    }
  }
}
