import type { ModelKind } from "./gguf/model-kind.js";

/** A model of the store, as its index keeps it. */
export interface StoredModel {
  readonly id: string;
  readonly kind: ModelKind;
  /** As the file calls itself, else the id. */
  readonly name: string;
  /** SPDX id in lower case where the file says so; null where it does not. */
  readonly license: string | null;
  /** Of the file that is kept, lower-case hex. */
  readonly sha256: string;
  readonly bytes: number;
  /** Where it came from, as `formatSource` writes it. */
  readonly source: string;
  readonly addedAtMs: number;
  /** Tokens it was trained for; null when the file does not say. */
  readonly contextLength: number | null;
  /** Length of its vectors; null for a chat model. */
  readonly dimensions: number | null;
}
