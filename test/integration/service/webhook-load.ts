import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { ServiceClient } from "../../support/service-client.js";
import { ServiceFolder } from "../../support/service-process.js";
import type { DebugState } from "../../support/start-service.js";

const pageBytes = 4_096;
const mebibyte = 2 ** 20;
const lookEveryMs = 100;
const triesMax = 3;
const adminToken = `adm_${"0123456789".repeat(4)}`;

/** The client of an account, whose requests create events, and its key. */
export interface Sender {
  readonly client: ServiceClient;
  readonly key: string;
}

/** A service in a separate process that may send webhooks to this machine. */
export class LoadedService {
  readonly http: string;
  readonly admin: ServiceClient;
  readonly #served: ServiceFolder;
  readonly #ops: string;
  readonly #pid: number;

  /** `config` is the configuration without `webhooks`; `webhooks` adds to the settings that allow this machine. */
  static async start(config: object, webhooks: object = {}): Promise<LoadedService> {
    const served = await ServiceFolder.create();
    const here = { allow_http: true, allow_private_cidrs: ["127.0.0.0/8"], endpoints_max: 200 };
    const env = {
      UIS_ADMIN_TOKEN: adminToken,
      LOG_LEVEL: "error",
      UIS_MASTER_KEY: Buffer.alloc(32, 1).toString("base64"),
    };
    const { line, child } = await served.start({ ...config, webhooks: { ...here, ...webhooks } }, { env });
    return new LoadedService(served, new URL(line.api).origin, line.ops, child.pid ?? 0);
  }

  private constructor(served: ServiceFolder, http: string, ops: string, pid: number) {
    this.#served = served;
    this.http = http;
    this.#ops = ops;
    this.#pid = pid;
    this.admin = new ServiceClient(http, adminToken);
  }

  get adminToken(): string {
    return adminToken;
  }

  /** Creates a key of this account. */
  async sender(account: string): Promise<Sender> {
    const wanted = { name: account, account, scope: "SCOPE_READ_WRITE" };
    const { status, text, json } = await this.admin.rpc("unified.admin.v1.ApiKeyService/CreateApiKey", wanted);
    if (status !== 200) throw new Error(`no key was created: ${text}`);
    const key = String(json["secret"]);
    return { key, client: new ServiceClient(this.http, key) };
  }

  async metrics(): Promise<string> {
    return (await fetch(`${this.#ops}/metrics`)).text();
  }

  async deliveries(): Promise<DebugState["deliveries"]> {
    const state = (await (await fetch(`${this.#ops}/debug/state`)).json()) as DebugState;
    return state.deliveries;
  }

  /** Resolves when no delivery is due or in flight. */
  async drained(): Promise<void> {
    for (;;) {
      const { due, in_flight: inFlight } = await this.deliveries();
      if (due + inFlight === 0) return;
      await delay(lookEveryMs);
    }
  }

  /** Resident memory, in MiB. */
  mebibytes(): number {
    const [, pages] = readFileSync(`/proc/${this.#pid}/statm`, "utf8").split(" ");
    return (Number(pages) * pageBytes) / mebibyte;
  }

  close(): Promise<void> {
    return this.#served.remove();
  }
}

/** Creates an endpoint for completed requests in the account of the caller. */
export async function addEndpoint({ client }: Sender, url: string): Promise<string> {
  const { status, text, json } = await client.post("/v1/webhooks", { url, events: ["request.completed"] });
  if (status !== 200) throw new Error(`no endpoint was created: ${text}`);
  return String(json["id"]);
}

/** The smallest value that at least this share of the numbers does not exceed; NaN without numbers. */
export function quantile(numbers: readonly number[], share: number): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/**
 * Returns the smallest of up to three measurements, because other work on the machine can only increase a measurement. It
 * stops at the first one that is at most `aim`.
 */
export async function leastOf(aim: number, measure: () => Promise<number>): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let tries = 0; tries < triesMax && !(least < aim); tries++) least = Math.min(least, await measure());
  return least;
}
