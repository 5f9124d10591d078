import { setTimeout as delay } from "node:timers/promises";
import { eventually } from "../../support/eventually.js";
import { ServiceClient } from "../../support/service-client.js";

/** A key that the service has acknowledged. Times are those of `performance.now()`. */
export interface CreatedKey {
  readonly id: string;
  readonly secret: string;
  readonly askedAtMs: number;
  readonly acknowledgedAtMs: number;
}

/** A key as the service lists it. */
export interface ListedKey {
  readonly id: string;
  readonly revokedAt?: string;
}

const pauseMs = 20;

/** A simulated administrator, who creates one key after the other, and revokes some of them. */
export class KeyChurn {
  readonly created: CreatedKey[] = [];
  readonly revoked: CreatedKey[] = [];
  readonly #client: ServiceClient;
  readonly #work: Promise<void>;
  #isOver = false;

  /** Starts to create keys; rejected ones do not count. */
  constructor(api: string, adminToken: string) {
    this.#client = new ServiceClient(api, adminToken);
    this.#work = this.#create();
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await this.#work;
  }

  /** Revokes the oldest key that is not yet revoked. Repeats the call while the store takes too long to write. */
  async revokeOne(): Promise<void> {
    const oldest = this.created[this.revoked.length];
    if (oldest === undefined) throw new Error("no key has been created");
    await eventually(async () => {
      const { status, text } = await this.#ask("RevokeApiKey", { id: oldest.id });
      if (status !== 200 && status !== 503) throw new Error(`a key cannot be revoked: ${text}`);
      return status === 200;
    }, "a key is revoked");
    this.revoked.push(oldest);
  }

  /** All keys in the store, by id. */
  async stored(): Promise<ReadonlyMap<string, ListedKey>> {
    const stored = new Map<string, ListedKey>();
    let pageToken: unknown = "";
    do {
      const { json } = await this.#ask("ListApiKeys", { pageSize: 1_000, pageToken });
      for (const each of json["apiKeys"] as readonly ListedKey[]) stored.set(each.id, each);
      pageToken = json["nextPageToken"];
    } while (pageToken !== undefined);
    return stored;
  }

  async #create(): Promise<void> {
    while (!this.#isOver) {
      const askedAtMs = performance.now();
      const { status, json } = await this.#ask("CreateApiKey", { name: "k", scope: "SCOPE_READ" });
      const acknowledgedAtMs = performance.now();
      const { apiKey, secret } = json as { apiKey: ListedKey; secret: string };
      if (status === 200) this.created.push({ id: apiKey.id, secret, askedAtMs, acknowledgedAtMs });
      await delay(pauseMs);
    }
  }

  #ask(method: string, message: object) {
    return this.#client.rpc(`unified.admin.v1.ApiKeyService/${method}`, message);
  }
}
