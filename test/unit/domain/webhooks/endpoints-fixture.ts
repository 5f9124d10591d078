import { randomBytes } from "node:crypto";
import type { AuditSource } from "../../../../src/domain/access/audit.js";
import { type Principal, tokenAdministrator } from "../../../../src/domain/call/principal.js";
import { unlimited } from "../../../../src/domain/call/rate-limits.js";
import type { SendResult, WebhookRequest } from "../../../../src/domain/webhooks/delivery.js";
import type { NewEndpoint } from "../../../../src/domain/webhooks/endpoint-store.js";
import { type EndpointCaller, WebhookEndpoints } from "../../../../src/domain/webhooks/endpoints.js";
import { createRandomIds, SecretBox } from "../../../../src/lib/crypto.js";
import { openMemoryState } from "../../../../src/state/embedded/memory-state.js";
import { FakeClock } from "../../../support/fake-clock.js";

/** A caller with a key of an account. */
export function keyCaller(account: string): EndpointCaller {
  const principal: Principal = {
    kind: "api_key",
    keyId: `key_${account}`,
    account,
    scope: "read_write",
    models: [],
    limits: unlimited,
  };
  return { principal, address: "192.0.2.1" };
}

export const administrator: EndpointCaller = { principal: tokenAdministrator, address: "192.0.2.2" };

export const answered: SendResult = {
  latencyMs: 12.4,
  status: 200,
  error: null,
  ip: "203.0.113.7",
  response: "thank you",
  retryAfter: null,
};

/** A valid endpoint with some fields changed. */
export function wanted(changes: Partial<NewEndpoint> = {}): NewEndpoint {
  return {
    account: "",
    url: "https://receiver.example/hook?token=hush",
    events: ["request.completed", "request.failed"],
    description: "",
    status: null,
    maxInFlight: null,
    ...changes,
  };
}

export interface Act {
  readonly source: AuditSource;
  readonly action: string;
  readonly target: string;
  readonly details: Readonly<Record<string, string>>;
}

/** Endpoints over a store in memory, with a sender and a clock that the test controls. */
export function openEndpoints(options: { readonly endpointsMax?: number } = {}) {
  const clock = new FakeClock();
  const state = openMemoryState({ clock });
  const box = new SecretBox(randomBytes(32));
  const acts: Act[] = [];
  const sent: WebhookRequest[] = [];
  const hand = {
    refusal: null as string | null,
    answer: async (): Promise<SendResult> => answered,
  };
  const endpoints = new WebhookEndpoints({
    endpoints: state.endpoints,
    sender: {
      refusalOf: async () => hand.refusal,
      send: async (request) => {
        sent.push(request);
        return await hand.answer();
      },
    },
    secrets: box,
    audit: {
      record: async (source, action, target, details = {}) => {
        acts.push({ source, action, target, details });
      },
    },
    ids: createRandomIds(),
    random: randomBytes,
    now: () => clock.now(),
    settings: { endpointsMax: options.endpointsMax ?? 20, attemptBudgetMs: 5_000 },
  });
  return { endpoints, state, box, clock, acts, sent, hand };
}
