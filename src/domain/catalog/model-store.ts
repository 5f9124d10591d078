/** A model whose verified file is kept on this machine. */
export interface StoredModel {
  /** What requests name. */
  readonly id: string;
  /** Absolute path of the file. */
  readonly path: string;
  /** SHA-256 of the file, lower-case hex. */
  readonly sha256: string;
  /** Size of the file. */
  readonly bytes: number;
  /** Where it came from, as it was named. */
  readonly source: string;
  readonly kind: "chat" | "embedding";
  /** Tokens of prompt and answer together that it was trained for. */
  readonly contextLength: number;
  /** As the file states it; null when it does not. */
  readonly license: string | null;
  readonly addedAtMs: number;
}

export interface PullRequest {
  /** `hf:`, `https:`, `pypi:` or `file:` and what belongs to it; null: wherever the default model `id` is to be had. */
  readonly source: string | null;
  /** Null: made of the source's file name. */
  readonly id: string | null;
  /** What the fetched file must have, lower-case hex; null: not known. */
  readonly sha256: string | null;
}

export interface PullProgress {
  readonly receivedBytes: number;
  /** Null while it is not known. */
  readonly totalBytes: number | null;
}

/**
 * The port to the models on this machine. Methods reject with ServiceError: `invalid_value` for a source or file that
 * cannot be used, `upstream_error` for a source that cannot be reached, `storage_unavailable` when the disk is full.
 */
export interface ModelStore {
  /** Ids of the models that it can fetch by id alone. `chat`: in the order in which they are tried, smaller ones last. */
  readonly defaults: { readonly chat: readonly string[]; readonly embedding: string };
  /** The id that a model of this source gets when none is named. */
  idOf(source: string): string;
  /** By id. */
  list(): Promise<readonly StoredModel[]>;
  /** Null: none is kept under this id. */
  find(id: string): Promise<StoredModel | null>;
  /** Fetches, verifies and keeps; a pull of what is there already answers at once. `warnings` are for the operator. */
  pull(
    request: PullRequest,
    onProgress: (progress: PullProgress) => void,
    signal: AbortSignal,
  ): Promise<{ readonly model: StoredModel; readonly warnings: readonly string[] }>;
  /** Keeps a copy of a GGUF file, of a wheel's model, or of what a folder with safetensors converts to. */
  importFile(path: string, id: string | null, signal: AbortSignal): Promise<StoredModel>;
  /** Forgets a model, and deletes its file when no other model needs it. Null: none is kept under this id. */
  remove(id: string): Promise<StoredModel | null>;
}
