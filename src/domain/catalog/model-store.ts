/** A model whose verified file is stored on this machine. */
export interface StoredModel {
  /** Id in requests. */
  readonly id: string;
  /** Absolute path of the file. */
  readonly path: string;
  /** SHA-256 of the file, lower-case hex. */
  readonly sha256: string;
  /** Size of the file. */
  readonly bytes: number;
  /** Source, as given. */
  readonly source: string;
  readonly kind: "chat" | "embedding";
  /** Context length that it was trained for, in tokens. */
  readonly contextLength: number;
  /** License from the file; null if absent. */
  readonly license: string | null;
  readonly addedAtMs: number;
}

export interface PullRequest {
  /** A short name, or an `hf:`, `https:`, `pypi:` or `file:` source; null: any known source of the default model `id`. */
  readonly source: string | null;
  /** Null: derived from the source's file name. */
  readonly id: string | null;
  /** Expected SHA-256, lower-case hex; null if unknown. */
  readonly sha256: string | null;
  /**
   * Whether only public addresses, and addresses and folders that the operator lists, may be used, because the caller is a
   * dashboard session. Default: false.
   */
  readonly isGuarded?: boolean;
}

export type ImportRequest = Pick<PullRequest, "id" | "isGuarded">;

export interface PullProgress {
  /** A conversion into the engine's format follows some downloads. Default: fetching. */
  readonly stage?: "fetching" | "converting";
  readonly receivedBytes: number;
  /** Null while unknown. */
  readonly totalBytes: number | null;
}

export interface PulledModel {
  readonly model: StoredModel;
  /** Texts for the operator. */
  readonly warnings: readonly string[];
}

/** A model that can be pulled. */
export interface FoundModel {
  /** Source for `pull`: a short name, or a repository of the model hub with a quantization. */
  readonly source: string;
  /** Null if the hub does not state it. */
  readonly kind: "chat" | "embedding" | null;
  /** Quantizations of the repository; empty for a short name, which has one. */
  readonly quantizations: readonly string[];
  /** Null if not known. */
  readonly approximateBytes: number | null;
  readonly downloads: number | null;
  readonly likes: number | null;
  readonly license: string | null;
  /** Whether the hub gives its files only to accounts that have accepted its terms. */
  readonly gated: boolean;
}

/**
 * Port of the models on this machine. Methods reject with ServiceError: `invalid_value` for an unusable source or file,
 * `upstream_error` for an unreachable source, `storage_unavailable` when the disk is full.
 */
export interface ModelStore {
  /** Ids of models that can be pulled by id alone. `chat`: in the order in which they are tried, smaller ones last. */
  readonly defaults: { readonly chat: readonly string[]; readonly embedding: string };
  /** Default id of a model from this source. */
  idOf(source: string): string;
  /** The source without parts that may be secret, such as the query of a signed URL. */
  shownSource(source: string): string;
  /**
   * Requests of pulls that have begun and not ended, stored beyond the end of the process. Requests whose source has a
   * secret are left out.
   */
  readonly unfinishedPulls: {
    read(): Promise<readonly PullRequest[]>;
    write(requests: readonly PullRequest[]): Promise<void>;
  };
  /** All stored models, ordered by id. */
  list(): Promise<readonly StoredModel[]>;
  /** Null for an unknown id. */
  find(id: string): Promise<StoredModel | null>;
  /** Models that match the words: short names first, then repositories that the model hub finds. */
  search(words: string, signal: AbortSignal): Promise<readonly FoundModel[]>;
  /** Downloads, verifies and stores a model; resolves immediately if it is already stored. */
  pull(request: PullRequest, onProgress: (progress: PullProgress) => void, signal: AbortSignal): Promise<PulledModel>;
  /** Stores a copy of a GGUF file, of the model in a Python wheel, or of a folder with safetensors converted to GGUF. */
  importFile(path: string, request: ImportRequest, signal: AbortSignal): Promise<StoredModel>;
  /** Removes a model and, if no other model needs it, its file. Null for an unknown id. */
  remove(id: string): Promise<StoredModel | null>;
}
