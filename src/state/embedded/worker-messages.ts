/** What the main thread and the worker say to each other. All of it is copied between threads: plain values only. */
import type { Outcome, Request } from "./batch.js";
import type { DeliveryBounds } from "./deliveries/delivery-rows.js";

export interface WorkerStart {
  readonly dataDir: string;
  readonly bounds: DeliveryBounds;
}

export type ToWorker =
  /** Without the sync, a power cut can take the writes of the batch until a later one is synced; a kill cannot. */
  | { readonly kind: "batch"; readonly requests: readonly Request[]; readonly isSynced: boolean }
  | { readonly kind: "close" };

export type FromWorker =
  | { readonly kind: "opened"; readonly warnings: readonly string[] }
  | { readonly kind: "refused"; readonly message: string; readonly fix: string }
  | { readonly kind: "outcomes"; readonly outcomes: readonly Outcome[] };
