import type { SecretBox } from "../../lib/crypto.js";
import { checkOverlap, type RandomBytes } from "../access/api-key.js";
import type { Audit } from "../access/audit.js";
import type { CallContext } from "../call/call-context.js";
import type { IdSource } from "../call/ports.js";
import { accountOf } from "../call/principal.js";
import { refuse, ServiceError } from "../call/service-error.js";
import type { EventType } from "../events/events.js";
import type { WebhookSender } from "./delivery.js";
import {
  activeSecrets,
  checkEndpointChange,
  checkEventType,
  checkNewEndpoint,
  type EndpointChange,
  type EndpointChoices,
  type EndpointHealth,
  type EndpointRecord,
  type EndpointSecret,
  type EndpointStore,
  freshHealth,
  isEndpointId,
  type KeptEndpoint,
  lastExpiryOf,
  type NewEndpoint,
  newWebhookSecret,
  rotatedSecrets,
} from "./endpoint-store.js";
import { attemptTest, type TestOutcome } from "./test-event.js";

export interface WebhookEndpointsDeps {
  readonly endpoints: Pick<EndpointStore, "insert" | "replace" | "find" | "list" | "remove">;
  readonly sender: Pick<WebhookSender, "send" | "refusalOf">;
  /** Encrypts secrets; each is bound to the id of its endpoint. */
  readonly secrets: Pick<SecretBox, "seal" | "open">;
  readonly audit: Pick<Audit, "record">;
  readonly ids: IdSource;
  readonly random: RandomBytes;
  /** Store time. */
  readonly now: () => number;
  readonly settings: {
    /** Maximum endpoints per account. */
    readonly endpointsMax: number;
    /** Time budget of an attempt. */
    readonly attemptBudgetMs: number;
  };
}

export type EndpointCaller = Pick<CallContext, "principal" | "address">;

export interface EndpointTarget {
  readonly id: string;
  /** Empty: the caller's own account. */
  readonly account: string;
}

/** An endpoint with its newest secret, which is returned only when the secret is created. */
export interface EndpointWithSecret {
  readonly endpoint: ShownEndpoint;
  readonly secret: string;
}

export interface RotatedEndpoint extends EndpointWithSecret {
  /** Expiry of the previous secret. */
  readonly oldExpiresAtMs: number;
}

const changeTriesMax = 5;

/**
 * Management of endpoints. An API key can use the endpoints of its account, the administrator all. For an endpoint of
 * another account the error is the same as for an unknown id (SEC-22). Every change is audited (KEY-23). Rejects with
 * ServiceError.
 */
export class WebhookEndpoints {
  readonly #deps: WebhookEndpointsDeps;
  /** Endpoints with a test in progress; each has at most one at a time. */
  readonly #underTest = new Set<string>();

  constructor(deps: WebhookEndpointsDeps) {
    this.#deps = deps;
  }

  /**
   * Creates an endpoint. Waits at most 2 s for the URL's host name to resolve. Rejects with `invalid_value` naming `url` or
   * `events`, and for too many endpoints.
   */
  async create(input: NewEndpoint, caller: EndpointCaller): Promise<EndpointWithSecret> {
    const { endpoints, audit, ids, now, settings } = this.#deps;
    const { endpointsMax } = settings;
    const account = accountOf(caller.principal, input.account);
    const choices = checkNewEndpoint(input);
    await this.#checkUrl(choices.url, account);
    const id = ids.text("we_");
    const { secret, kept } = this.#newSecret(id);
    const nowMs = now();
    const record: EndpointRecord = {
      id,
      account,
      ...choices,
      disabledReason: choices.status === "disabled" ? "by_hand" : null,
      secrets: [{ ...kept, expiresAtMs: null }],
      version: 1,
      createdAtMs: nowMs,
      updatedAtMs: nowMs,
    };
    if (!(await endpoints.insert(record, endpointsMax))) {
      const sentence = `The account has ${endpointsMax} webhook endpoints, the maximum (webhooks.endpoints_max). Delete one first.`;
      throw new ServiceError("invalid_value", sentence);
    }
    await audit.record(caller, "webhook_endpoint.create", id, { account, ...changedDetails(choices) });
    return { endpoint: shownEndpoint({ record, health: freshHealth }, nowMs), secret };
  }

  /** Oldest first. An empty `account` is the caller's own. */
  async list(account: string, caller: EndpointCaller): Promise<readonly ShownEndpoint[]> {
    const { endpoints, now } = this.#deps;
    const kept = await endpoints.list(accountOf(caller.principal, account));
    const nowMs = now();
    return kept.map((each) => shownEndpoint(each, nowMs));
  }

  async get(target: EndpointTarget, caller: EndpointCaller): Promise<ShownEndpoint> {
    return this.#shown(await this.#find(target, caller));
  }

  /** Changes the fields present in `change`; a URL is checked as for a new endpoint. */
  async update(target: EndpointTarget, change: EndpointChange, caller: EndpointCaller): Promise<ShownEndpoint> {
    const checked = checkEndpointChange(change);
    // Check ownership before resolving the URL.
    if (checked.url !== undefined) {
      const { record } = await this.#find(target, caller);
      await this.#checkUrl(checked.url, record.account);
    }
    const changed = await this.#replace(target, caller, (record) => changedRecord(record, checked));
    await this.#deps.audit.record(caller, "webhook_endpoint.update", target.id, changedDetails(checked));
    return this.#shown(changed);
  }

  /** Removes an endpoint. Nothing more is sent to it, except for attempts in progress. */
  async remove(target: EndpointTarget, caller: EndpointCaller): Promise<void> {
    const { endpoints, audit } = this.#deps;
    const account = accountOf(caller.principal, target.account);
    const isDone = isEndpointId(target.id) && (await endpoints.remove(account, target.id));
    if (!isDone) notFound();
    await audit.record(caller, "webhook_endpoint.delete", target.id, { account });
  }

  /**
   * Replaces the signing secret. `overlapMs`: time for which the previous secret still signs, 0 to 7 days; null means 24 h.
   */
  async rotate(target: EndpointTarget, overlapMs: number | null, caller: EndpointCaller): Promise<RotatedEndpoint> {
    const chosenMs = checkOverlap(overlapMs);
    const { secret, kept } = this.#newSecret(target.id);
    const nowMs = this.#deps.now();
    const changed = await this.#replace(target, caller, (record) => ({
      ...record,
      secrets: rotatedSecrets(record.secrets, kept, chosenMs, nowMs),
    }));
    const oldExpiresAtMs = nowMs + chosenMs;
    const details = { old_expires_at: new Date(oldExpiresAtMs).toISOString() };
    await this.#deps.audit.record(caller, "webhook_endpoint.rotate", target.id, details);
    return { endpoint: this.#shown(changed), secret, oldExpiresAtMs };
  }

  /**
   * Makes one attempt with a sample event, which is neither stored nor retried (WH-49). `eventType` must be one of the
   * endpoint's event types; empty means the first one. Rejects with `conflict` while a test of this endpoint is in progress.
   */
  async sendTestEvent(target: EndpointTarget, eventType: string, caller: EndpointCaller): Promise<TestOutcome> {
    const { record } = await this.#find(target, caller);
    const outcome = await this.#test(record, subscribedType(record, eventType));
    const { status, error } = outcome.result;
    const details = { account: record.account, status: String(status ?? ""), error: error ?? "" };
    await this.#deps.audit.record(caller, "webhook_endpoint.test", record.id, details);
    // Responses are for administrators only (WH-43).
    const response = caller.principal.kind === "administrator" ? outcome.result.response : null;
    return { ...outcome, result: { ...outcome.result, response } };
  }

  async #test(record: EndpointRecord, type: EventType): Promise<TestOutcome> {
    if (this.#underTest.has(record.id)) {
      throw new ServiceError("conflict", "A test event of this endpoint is in progress. Wait for its answer.");
    }
    this.#underTest.add(record.id);
    try {
      return await attemptTest(this.#deps, record, type);
    } finally {
      this.#underTest.delete(record.id);
    }
  }

  #shown(kept: KeptEndpoint): ShownEndpoint {
    return shownEndpoint(kept, this.#deps.now());
  }

  #newSecret(id: string): { readonly secret: string; readonly kept: Omit<EndpointSecret, "expiresAtMs"> } {
    const secret = newWebhookSecret(this.#deps.random);
    return { secret, kept: { sealed: this.#deps.secrets.seal(secret, id), hint: secret.slice(-4) } };
  }

  async #checkUrl(url: string, account: string): Promise<void> {
    const refusal = await this.#deps.sender.refusalOf(url, account);
    if (refusal !== null) refuse("invalid_value", "url", refusal);
  }

  async #find({ id, account: asked }: EndpointTarget, { principal }: EndpointCaller): Promise<KeptEndpoint> {
    const account = accountOf(principal, asked);
    const kept = isEndpointId(id) ? await this.#deps.endpoints.find(account, id) : null;
    return kept ?? notFound();
  }

  /** Changes an endpoint; after a concurrent change it reads the endpoint and tries again. Expired secrets are removed. */
  async #replace(
    target: EndpointTarget,
    caller: EndpointCaller,
    change: (record: EndpointRecord) => EndpointRecord,
  ): Promise<KeptEndpoint> {
    const { endpoints, now } = this.#deps;
    for (let tries = 0; tries < changeTriesMax; tries++) {
      const { record: before, health } = await this.#find(target, caller);
      const nowMs = now();
      const changed = change({ ...before, secrets: activeSecrets(before.secrets, nowMs) });
      const record = { ...changed, version: before.version + 1, updatedAtMs: nowMs };
      const outcome = await endpoints.replace(record);
      if (outcome === "unknown") notFound();
      const isEnabledAnew = before.status === "disabled" && record.status === "enabled";
      if (outcome === "replaced") return { record, health: isEnabledAnew ? freshHealth : health };
    }
    throw new ServiceError("conflict", "The webhook endpoint is being changed by other requests. Try again.");
  }
}

/** Applies a change. If the endpoint is already disabled, the reason for that is kept. */
function changedRecord(before: EndpointRecord, change: Partial<EndpointChoices>): EndpointRecord {
  const after = { ...before, ...change };
  if (after.status === before.status) return after;
  return { ...after, disabledReason: after.status === "disabled" ? "by_hand" : null };
}

function subscribedType({ events }: EndpointRecord, asked: string): EventType {
  const [first = "request.completed"] = events;
  if (asked === "") return first;
  const type = checkEventType(asked, "event_type");
  if (events.includes(type)) return type;
  return refuse("invalid_value", "event_type", `The endpoint does not get '${type}': add it to its 'events' first.`);
}

function notFound(): never {
  return refuse("not_found", "id", "There is no webhook endpoint with this id.");
}

/** Audit details of a change: the new values. */
export function changedDetails(choices: Partial<EndpointChoices>): Record<string, string> {
  const { url, events, description, status, maxInFlight } = choices;
  return {
    // Path and query of a URL often contain secrets, so only the origin is recorded.
    ...(url === undefined ? {} : { url_origin: new URL(url).origin }),
    ...(events === undefined ? {} : { events: events.join(",") }),
    ...(description === undefined ? {} : { description }),
    ...(status === undefined ? {} : { status }),
    ...(maxInFlight === undefined ? {} : { max_in_flight: String(maxInFlight) }),
  };
}

/** An endpoint without its secrets, for transports. */
export interface ShownEndpoint extends Omit<EndpointRecord, "secrets" | "version">, EndpointHealth {
  /** Last four characters of the signing secret. */
  readonly secretHint: string;
  /** Expiry of the last replaced secret; null when only one signs. */
  readonly previousSecretExpiresAtMs: number | null;
}

/** `nowMs`: store time. */
export function shownEndpoint({ record, health }: KeptEndpoint, nowMs: number): ShownEndpoint {
  const { secrets, version: _, ...shown } = record;
  return {
    ...shown,
    ...health,
    secretHint: secrets[0]?.hint ?? "",
    previousSecretExpiresAtMs: lastExpiryOf(secrets, nowMs),
  };
}
