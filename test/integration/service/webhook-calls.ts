import { expect } from "vitest";
import { type ClientAnswer, ServiceClient } from "../../support/service-client.js";

/** An attempt as the administrator reads it over Connect's JSON, which omits empty fields. */
export interface ShownAttempt {
  readonly number: number;
  readonly startedAt: string;
  readonly status?: number;
  readonly error?: string;
  readonly ip?: string;
  readonly response?: string;
  /** A whole number of milliseconds; absent: 0. */
  readonly latencyMs?: string;
  readonly nextAttemptAt?: string;
}

export interface ShownDelivery {
  readonly id: string;
  readonly endpointId: string;
  readonly state: string;
  readonly attempts?: readonly ShownAttempt[];
}

export const endpointService = "unified.webhook.v1.WebhookEndpointService";
export const deliveryService = "unified.webhook.v1.DeliveryService";

const pageSizeMax = 1_000;
const lookEveryMs = 200;
const patienceMs = 60_000;

/** Calls that tests make to a service's webhooks, as the owner of a key and as the administrator. */
export class WebhookCalls {
  readonly own: ServiceClient;
  readonly administrator: ServiceClient;

  constructor({ http, key, adminToken }: { readonly http: string; readonly key: string; readonly adminToken: string }) {
    this.own = new ServiceClient(http, key);
    this.administrator = new ServiceClient(http, adminToken);
  }

  /** Registers an endpoint over REST, for the event of every completed request. */
  post(url: string): Promise<ClientAnswer> {
    return this.own.post("/v1/webhooks", { url, events: ["request.completed"] });
  }

  /** Registers a URL that must be accepted, and returns the endpoint's id. */
  async add(url: string): Promise<string> {
    const answer = await this.post(url);
    expect([url, answer.status, answer.code]).toEqual([url, 200, null]);
    return String(answer.json["id"]);
  }

  /** Sends one chat, which creates one event. */
  async chat(model = "test-chat"): Promise<void> {
    expect((await this.own.chat(model)).status).toBe(200);
  }

  /** The newest deliveries of all accounts, at most 1,000, which is the default. */
  async deliveries(pageSize = pageSizeMax): Promise<readonly ShownDelivery[]> {
    const answer = await this.administrator.rpc(`${deliveryService}/ListDeliveries`, { pageSize });
    return (answer.json["deliveries"] ?? []) as ShownDelivery[];
  }

  /** Resolves with all deliveries once `count` of them are in one of the states. */
  async until(count: number, states: readonly string[]): Promise<readonly ShownDelivery[]> {
    const hasEnded = (deliveries: readonly ShownDelivery[]): number =>
      deliveries.filter(({ state }) => states.includes(state)).length;
    await expect
      .poll(async () => hasEnded(await this.deliveries()), { interval: lookEveryMs, timeout: patienceMs })
      .toBe(count);
    return await this.deliveries();
  }
}
