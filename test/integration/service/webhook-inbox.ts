import { setTimeout as delay } from "node:timers/promises";
import { verifyWebhook } from "../../../src/lib/webhook-signature.js";
import {
  type PlainAnswer,
  type ReceivedRequest,
  type Receiver,
  startReceiver,
} from "../../support/receivers/receiver.js";
import { ServiceClient } from "../../support/service-client.js";

/** Settings that allow receivers on this machine and retry failures soon. */
export const webhooksHere = {
  allow_http: true,
  allow_private_cidrs: ["127.0.0.0/8"],
  retry_delays: ["200ms", "400ms", "800ms"],
};

/** The headers and body of an attempt as received. */
export interface Arrival {
  /** Path of the endpoint's URL. */
  readonly path: string;
  readonly deliveryId: string;
  /** Number of the attempt, 1 for the first. */
  readonly attempt: number;
  readonly eventId: string;
  readonly requestId: string;
  /** `error.code` of a failed request, else empty. */
  readonly code: string;
  readonly body: string;
  /** Status of the response. */
  readonly status: number;
  /** Time of the arrival by `performance.now()`. */
  readonly atMs: number;
}

export interface InboxOptions {
  /** Chooses the response by delivery and number of the attempt. */
  readonly answer: (deliveryId: string, attempt: number) => PlainAnswer;
  readonly host?: string;
  readonly port?: number;
}

/** A service, and a key that may create endpoints on it. */
export interface Maker {
  readonly http: string;
  readonly key: string;
}

export interface Endpoint {
  readonly path: string;
  /** The origin in the endpoint's URL, if it differs from the receiver's address. */
  readonly origin?: string;
  readonly max_in_flight?: number;
}

/** A receiver that records attempts at its endpoints. It answers 401 to a wrong signature. */
export class WebhookInbox {
  readonly receiver: Receiver;
  readonly arrivals: Arrival[] = [];
  /** Arrivals whose signature does not match any secret of their endpoint. */
  forged = 0;
  readonly #secrets = new Map<string, string>();
  readonly #taken = new Map<string, Set<string>>();
  readonly #options: InboxOptions;

  static async open(options: InboxOptions): Promise<WebhookInbox> {
    const { host, port } = options;
    const at = { ...(host === undefined ? {} : { host }), ...(port === undefined ? {} : { port }) };
    return new WebhookInbox(await startReceiver(at), options);
  }

  private constructor(receiver: Receiver, options: InboxOptions) {
    this.receiver = receiver;
    this.#options = options;
    receiver.answerWith((request) => this.#take(request));
  }

  /** Creates an endpoint for completed and failed requests, and returns its secret. */
  async makeEndpoint({ http, key }: Maker, { path, origin = this.receiver.url, ...more }: Endpoint): Promise<string> {
    const url = new URL(path, origin).href;
    const events = ["request.completed", "request.failed"];
    const made = await new ServiceClient(http, key).post("/v1/webhooks", { url, events, ...more });
    if (made.status !== 200) throw new Error(`no endpoint was created: ${made.text}`);
    const secret = String(made.json["secret"]);
    this.knowSecret(path, secret);
    return secret;
  }

  knowSecret(path: string, secret: string): void {
    this.#secrets.set(path, secret);
    this.#taken.set(path, new Set());
  }

  /** Whether every endpoint has accepted the event of this request. */
  hasTaken(requestId: string): boolean {
    return [...this.#taken.values()].every((requestIds) => requestIds.has(requestId));
  }

  close(): Promise<void> {
    return this.receiver.close();
  }

  #take({ path, headers, rawBody }: ReceivedRequest): PlainAnswer {
    const body = rawBody.toString();
    const secret = this.#secrets.get(path);
    const header = headers["service-signature"];
    if (secret === undefined || !verifyWebhook({ secret, header, body }).valid) {
      this.forged += 1;
      return { status: 401 };
    }
    const deliveryId = String(headers["service-delivery-id"]);
    const attempt = Number(headers["service-attempt"]);
    const answer = this.#options.answer(deliveryId, attempt);
    const event = JSON.parse(body) as Event;
    const { request_id: requestId, error } = event.data;
    const { status } = answer;
    const arrival = { path, deliveryId, attempt, eventId: event.id, requestId, code: error?.code ?? "", body, status };
    this.arrivals.push({ ...arrival, atMs: performance.now() });
    if (status < 300) this.#taken.get(path)?.add(requestId);
    return answer;
  }
}

interface Event {
  readonly id: string;
  readonly data: { readonly request_id: string; readonly error?: { readonly code: string } };
}

/** Last two hex digits of a delivery's id: a number from 0 to 255 that is equal for all of its attempts. */
export function chanceOf(deliveryId: string): number {
  return Number.parseInt(deliveryId.slice(-2), 16);
}

export interface Repeats {
  /** By delivery: how many attempts arrived again with the same number. */
  readonly byDelivery: ReadonlyMap<string, number>;
  readonly total: number;
}

/** Attempts that arrived more than once. Their result was not recorded, so their number was used again. */
export function repeatsIn(arrivals: readonly Arrival[]): Repeats {
  const attempts = new Set<string>();
  const byDelivery = new Map<string, number>();
  for (const { deliveryId, attempt } of arrivals) {
    const name = `${deliveryId}/${attempt}`;
    if (attempts.has(name)) byDelivery.set(deliveryId, (byDelivery.get(deliveryId) ?? 0) + 1);
    attempts.add(name);
  }
  return { byDelivery, total: [...byDelivery.values()].reduce((sum, each) => sum + each, 0) };
}

/** Requests with more than one event, or with two versions of one event. */
export function toldTwoWays(arrivals: readonly Arrival[]): string[] {
  const bodies = new Map<string, string>();
  const found = new Set<string>();
  for (const { requestId, body } of arrivals) {
    const first = bodies.get(requestId);
    if (first === undefined) bodies.set(requestId, body);
    else if (first !== body) found.add(requestId);
  }
  return [...found];
}

/** A delivery as the administrator reads it. */
export interface ListedDelivery {
  readonly id: string;
  readonly state: string;
  readonly attemptsMade: number;
  readonly attempts: readonly ListedAttempt[];
  /** The payload and the attempts are removed. */
  readonly purged?: true;
}

/** Protobuf's JSON omits fields that are zero. */
export interface ListedAttempt {
  readonly number: number;
  /** RFC 3339. */
  readonly startedAt: string;
  /** Milliseconds in decimal digits. */
  readonly latencyMs?: string;
  readonly status?: number;
  readonly ip?: string;
}

const pageSize = 500;

/** Deliveries of all accounts, newest first, optionally of one state; `token` is an administrator's. */
export async function listDeliveries(http: string, token: string, state = ""): Promise<ListedDelivery[]> {
  const client = new ServiceClient(http, token);
  const found: ListedDelivery[] = [];
  for (let pageToken: string | undefined = ""; pageToken !== undefined; ) {
    const rpc = "unified.webhook.v1.DeliveryService/ListDeliveries";
    const { status, text, json } = await client.rpc(rpc, { pageSize, pageToken, state });
    if (status !== 200) throw new Error(`no list of deliveries: ${text}`);
    const page = json as { readonly deliveries?: readonly ListedDelivery[]; readonly nextPageToken?: string };
    for (const delivery of page.deliveries ?? []) found.push({ ...delivery, attempts: delivery.attempts ?? [] });
    pageToken = page.nextPageToken;
  }
  return found;
}

const lookEveryMs = 200;
const openStates = ["pending", "delivery_attempted", "awaiting_retry"];

/** Whether no delivery is open, checked after a short delay. */
export async function haveAllEnded(http: string, token: string): Promise<boolean> {
  await delay(lookEveryMs);
  const open = await Promise.all(openStates.map((state) => listDeliveries(http, token, state)));
  return open.flat().length === 0;
}

/** Deliveries that are not purged and whose recorded attempts are not numbered from 1 on without gaps and duplicates. */
export function oddlyNumbered(deliveries: readonly ListedDelivery[]): ListedDelivery[] {
  return deliveries.filter(
    ({ attempts, attemptsMade, purged }) =>
      purged !== true &&
      (attempts.length !== attemptsMade || attempts.some(({ number }, place) => number !== place + 1)),
  );
}
