import type { KeyStore } from "./access/key-store.js";
import type { CatalogStore } from "./catalog/catalog-store.js";

/** How the kept state is doing, for `/ready` with detail and `uis doctor`. */
export interface StateHealth {
  /** Whether the store answers. */
  readonly ok: boolean;
  /** One round trip to the store. */
  readonly latencyMs: number;
  /** What a power cut can take of acknowledged writes: nothing, up to a second, or everything. */
  readonly durability: "every-write" | "one-second" | "none";
  /** What a person should look at, each with its remedy. */
  readonly warnings: readonly string[];
}

/** All ports of one driver over one connection. Whoever opened it closes it, after everything that writes has ended. */
export interface State {
  readonly kind: "embedded" | "volatile";
  readonly keys: KeyStore;
  readonly catalog: CatalogStore;
  /** Never rejects: a store that does not answer is `ok: false`. */
  health(): Promise<StateHealth>;
  /** Waits for the writes that were asked for; whatever comes later is refused as `storage_unavailable`. */
  close(): Promise<void>;
}

/** A store that cannot be opened: the message names the cause, `fix` what the operator can do. The start fails (exit 2). */
export class StateOpenError extends Error {
  override readonly name = "StateOpenError";
  readonly fix: string;
  constructor(message: string, fix: string, options?: ErrorOptions) {
    super(message, options);
    this.fix = fix;
  }
}
