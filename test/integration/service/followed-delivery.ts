import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { expect } from "vitest";
import { verifyWebhook } from "../../../src/lib/webhook-signature.js";
import { type BuiltService, startBuiltService } from "../../support/built-service.js";
import { eventually } from "../../support/eventually.js";
import type { FastTime } from "../../support/fast-time/fast-time.js";
import type { FastRequest } from "../../support/fast-time/receiver-message.js";
import { type RedisServer, startRedis } from "../../support/redis/start-redis.js";
import { ServiceClient } from "../../support/service-client.js";

export const drivers = ["embedded", "redis"] as const;
export type Driver = (typeof drivers)[number];

const secondMs = 1_000;
/** For what a busy machine adds. */
const truePatienceMs = 20_000;
const adminToken = "admin-token-of-this-test";
const masterKey = randomBytes(32).toString("base64");

export interface AttemptRecord {
  readonly number: number;
  readonly trigger: string;
  readonly by?: string;
  readonly startedAt: string;
  readonly latencyMs: string;
  readonly status?: number;
}

/** As `DeliveryService` shows it over JSON. */
export interface DeliveryRecord {
  readonly id: string;
  readonly state: string;
  readonly reason?: string;
  readonly attemptsMade: number;
  readonly nextAttemptAt?: string;
  readonly attempts: readonly AttemptRecord[];
}

const deliveryService = "unified.webhook.v1.DeliveryService";

/** A whole service in fast time, and the one delivery that it is about. */
export class FollowedDelivery {
  readonly time: FastTime;
  readonly #folder: string;
  readonly #driver: Driver;
  readonly #path: string;
  readonly #redis: RedisServer | null;
  #service: BuiltService | null = null;
  #secret = "";
  #id = "";

  /** Its files are in a folder of `root`. */
  static async in(root: string, driver: Driver, time: FastTime): Promise<FollowedDelivery> {
    const redis = driver === "redis" ? await startRedis({ env: time.redisEnv }) : null;
    return new FollowedDelivery(join(root, `${driver}-${time.speed}`), driver, time, redis);
  }

  private constructor(folder: string, driver: Driver, time: FastTime, redis: RedisServer | null) {
    this.time = time;
    this.#folder = folder;
    this.#driver = driver;
    this.#path = `/${driver}`;
    this.#redis = redis;
  }

  /** Starts the service and makes an event for an endpoint that fails. */
  async begin(): Promise<void> {
    await this.#startService();
    await this.#makeEvent();
  }

  /** Ends it in order, or not, and starts it again. */
  async restart(how: "stop" | "kill"): Promise<void> {
    if (how === "stop") expect(await this.#running.stop()).toBe(0);
    else await this.#running.kill();
    await this.#startService();
  }

  /** Nothing of it is left running for a moment. */
  async restartWithStore(): Promise<void> {
    await this.#running.kill();
    await this.#redis?.kill();
    await this.#redis?.restart();
    await this.#startService();
  }

  async remove(): Promise<void> {
    await this.#service?.kill();
    await this.#redis?.remove();
  }

  async record(): Promise<DeliveryRecord> {
    const { json } = await this.#asAdmin("GetDelivery", { id: this.#id });
    return json["delivery"] as DeliveryRecord;
  }

  /** The record as soon as it knows of so many failed attempts, the last of which is to be made within a time. */
  async failed(count: number, withinMs = 0): Promise<DeliveryRecord> {
    const patienceMs = withinMs + truePatienceMs * this.time.speed;
    await this.time.until(() => this.requestOf(count) !== null, `attempt ${count}, ${this.#driver}`, patienceMs);
    let record = await this.record();
    const isNoted = async () => {
      await this.time.pass(secondMs);
      record = await this.record();
      return record.attemptsMade === count && record.state !== "delivery_attempted";
    };
    await eventually(isNoted, `the end of attempt ${count}, ${this.#driver}`);
    return record;
  }

  async retry(): Promise<void> {
    expect((await this.#asAdmin("RetryDelivery", { id: this.#id })).status).toBe(200);
  }

  get requests(): readonly FastRequest[] {
    return this.time.requests.filter(({ path }) => path === this.#path);
  }

  /** Of an attempt that was repeated, because it had outlasted its lease, the last. */
  requestOf(attempt: number): FastRequest | null {
    return this.requests.findLast(({ headers }) => headers["service-attempt"] === String(attempt)) ?? null;
  }

  /** `t` of the signature of an attempt, in milliseconds; rounded down to the second. */
  signedAtMs(attempt: number): number {
    const request = this.requestOf(attempt);
    if (request === null) throw new Error(`the receiver got no attempt ${attempt}`);
    const { headers, body, arrivedAtMs } = request;
    const header = String(headers["service-signature"]);
    const verified = verifyWebhook({ secret: this.#secret, header, body, nowS: arrivedAtMs / secondMs });
    if (!verified.valid) throw new Error(`attempt ${attempt}: ${verified.reason}`);
    return verified.timestampS * secondMs;
  }

  async #startService(): Promise<void> {
    const state = this.#redis === null ? {} : { redis_url: this.#redis.url };
    this.#service = await startBuiltService({
      folder: this.#folder,
      config: {
        state,
        models: [{ id: "m", engine: "scripted", scripted: { text: "three words here" } }],
        webhooks: { allow_http: true, allow_private_cidrs: ["127.0.0.0/8"] },
      },
      env: { ...this.time.env, UIS_ADMIN_TOKEN: adminToken, UIS_MASTER_KEY: masterKey },
    });
  }

  get #running(): BuiltService {
    if (this.#service === null) throw new Error("it is not started");
    return this.#service;
  }

  async #makeEvent(): Promise<void> {
    const client = new ServiceClient(this.#running.http, this.#running.key);
    const wanted = { url: new URL(this.#path, this.time.url).href, events: ["request.completed"] };
    const made = await client.post("/v1/webhooks", wanted);
    expect(made.status).toBe(200);
    this.#secret = String(made.json["secret"]);
    expect((await client.chat("m")).status).toBe(200);
    const { json } = await this.#asAdmin("ListDeliveries");
    const [delivery] = json["deliveries"] as DeliveryRecord[];
    this.#id = delivery?.id ?? "";
  }

  #asAdmin(rpc: string, message: object = {}) {
    return new ServiceClient(this.#running.http, adminToken).rpc(`${deliveryService}/${rpc}`, message);
  }
}
