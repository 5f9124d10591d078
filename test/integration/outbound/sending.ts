import { afterEach } from "vitest";
import type { SendResult, WebhookSender } from "../../../src/domain/webhooks/delivery.js";
import { createWebhookSender, type WebhookSenderOptions } from "../../../src/outbound/webhook-sender.js";

const opened: { close(): Promise<void> | void }[] = [];

afterEach(async () => {
  for (const part of opened.splice(0).reverse()) await part.close();
});

/** Registers a part for cleanup after the test, in reverse order. */
export function closing<T extends { close(): Promise<void> | void }>(part: T): T {
  opened.push(part);
  return part;
}

/** A sender that may reach this machine over http, unless the test overrides it. */
export function openSender(options: Partial<WebhookSenderOptions> = {}): WebhookSender {
  const lab = { allowHttp: true, allowPrivateCidrs: ["127.0.0.0/8"], allowPorts: [], dnsServers: [] };
  return closing(createWebhookSender({ ...lab, ...options }));
}

/** One POST of a small body. */
export function post(sender: WebhookSender, url: string, budgetMs = 5_000, account = "acme"): Promise<SendResult> {
  return sender.send({
    account,
    url,
    headers: { "content-type": "application/json" },
    body: '{"id":"evt_1"}',
    budgetMs,
  });
}
