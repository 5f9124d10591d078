import type { ApiKeyRecord, KeyChange, KeyStore, KeyUse } from "../../../../src/domain/access/key-store.js";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import { openMemoryState } from "../../../../src/state/embedded/memory-state.js";

/** A key store in memory that counts look-ups, and can be slow or unavailable. */
export class ScriptedKeyStore implements KeyStore {
  readonly #keys: KeyStore;
  /** Hashes that were looked up. */
  readonly lookUps: string[] = [];
  readonly touches: KeyUse[] = [];
  /** Ids that were looked up. */
  readonly finds: string[] = [];
  /** Look-ups by id that were answered. */
  answers = 0;
  down = false;
  /** While set, look-ups return their result only after it resolves. */
  gate: Promise<void> | null = null;

  constructor(keys: KeyStore = openMemoryState().keys) {
    this.#keys = keys;
  }

  async findByHash(hash: string): Promise<ApiKeyRecord | null> {
    this.lookUps.push(hash);
    this.#refuseWhenDown();
    const seen = await this.#keys.findByHash(hash);
    await this.gate;
    return seen;
  }

  async touch(uses: readonly KeyUse[]): Promise<void> {
    this.#refuseWhenDown();
    this.touches.push(...uses);
    await this.#keys.touch(uses);
  }

  async find(id: string): Promise<ApiKeyRecord | null> {
    this.finds.push(id);
    this.#refuseWhenDown();
    const found = await this.#keys.find(id);
    this.answers += 1;
    return found;
  }

  update(id: string, change: KeyChange): Promise<ApiKeyRecord | null> {
    return this.#keys.update(id, change);
  }

  rotate(id: string, successor: ApiKeyRecord, oldExpiresAtMs: number): Promise<boolean> {
    return this.#keys.rotate(id, successor, oldExpiresAtMs);
  }

  insert(record: ApiKeyRecord): Promise<void> {
    return this.#keys.insert(record);
  }

  insertFirst(record: ApiKeyRecord): Promise<boolean> {
    return this.#keys.insertFirst(record);
  }

  list(page: Parameters<KeyStore["list"]>[0]): ReturnType<KeyStore["list"]> {
    return this.#keys.list(page);
  }

  async revoke(id: string, atMs: number): Promise<ApiKeyRecord | null> {
    this.#refuseWhenDown();
    return this.#keys.revoke(id, atMs);
  }

  #refuseWhenDown(): void {
    if (this.down) throw new ServiceError("storage_unavailable", "The store cannot be used: this is a test.");
  }
}
