import type { SendResult, WebhookRequest, WebhookSender } from "../domain/webhooks/delivery.js";
import { AddressRules } from "./address-rules.js";
import { Attempt } from "./attempt.js";
import { ReceiverAgents } from "./receiver-agents.js";
import { BlockedAddress, CheckedLookup, Resolver } from "./resolver.js";
import { checkTarget, type TargetRules } from "./target.js";

export interface WebhookSenderOptions {
  /** Whether receivers may be reached without TLS. */
  readonly allowHttp: boolean;
  /** Ranges of addresses that are open though they are not public. Throws when one cannot be parsed. */
  readonly allowPrivateCidrs: readonly string[];
  /** Ports that are open beside 443 and those from 1024. */
  readonly allowPorts: readonly number[];
  /** Name servers, with or without a port; none: the system's hosts file and name servers. */
  readonly dnsServers: readonly string[];
  /** Default header of requests without one. */
  readonly userAgent?: string;
  /** PEM of the certificate authorities to trust in place of Node's own list. */
  readonly ca?: string;
}

/** Time that a registration waits for the name in its URL to resolve. */
const registrationWaitMs = 2_000;

/** The only place where webhooks leave the service. */
export function createWebhookSender(options: WebhookSenderOptions): WebhookSender {
  return new HttpWebhookSender(options);
}

class HttpWebhookSender implements WebhookSender {
  readonly #rules: TargetRules;
  readonly #userAgent: Readonly<Record<string, string>>;
  readonly #resolver: Resolver;
  readonly #lookup: CheckedLookup;
  readonly #agents: ReceiverAgents;
  readonly #underWay = new Set<Attempt>();
  #isClosed = false;

  constructor({ allowHttp, allowPrivateCidrs, allowPorts, dnsServers, userAgent, ca }: WebhookSenderOptions) {
    const addresses = new AddressRules(allowPrivateCidrs);
    this.#rules = { allowHttp, allowPorts, addresses };
    this.#userAgent = userAgent === undefined ? {} : { "user-agent": userAgent };
    this.#resolver = new Resolver(dnsServers);
    this.#lookup = new CheckedLookup(this.#resolver, addresses);
    this.#agents = new ReceiverAgents(ca ?? null);
  }

  send(request: WebhookRequest): Promise<SendResult> {
    const check = checkTarget(request.url, this.#rules);
    if (this.#isClosed) return Promise.resolve(unsent("reset"));
    if ("refusal" in check) return Promise.resolve(unsent("blocked_address"));
    const headers = { ...this.#userAgent, ...request.headers };
    return new Promise((resolve) => {
      const parts = { agents: this.#agents, lookup: this.#lookup };
      const attempt = new Attempt(check.target, { ...request, headers }, parts, (result) => {
        this.#underWay.delete(attempt);
        resolve(result);
      });
      this.#underWay.add(attempt);
    });
  }

  async refusalOf(url: string, account: string): Promise<string | null> {
    const check = checkTarget(url, this.#rules);
    if ("refusal" in check) return check.refusal;
    const { host, isAddress } = check.target;
    if (isAddress || !(await this.#isBlocked(host, account))) return null;
    return "The host name has an address that is not public, and the operator has not opened it.";
  }

  close(): void {
    this.#isClosed = true;
    for (const attempt of this.#underWay) attempt.stop();
    this.#agents.close();
    this.#resolver.close();
  }

  /** Whether the name resolves to a closed address within the wait. */
  async #isBlocked(name: string, account: string): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined;
    const tooLate = new Promise<boolean>((resolve) => {
      timer = setTimeout(() => resolve(false), registrationWaitMs);
    });
    const answered = this.#lookup.addresses(name, account).then(
      () => false,
      (error: unknown) => error instanceof BlockedAddress,
    );
    try {
      return await Promise.race([answered, tooLate]);
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Nothing was sent. */
function unsent(error: "reset" | "blocked_address"): SendResult {
  return { latencyMs: 0, status: null, error, ip: null, response: null, retryAfter: null };
}
