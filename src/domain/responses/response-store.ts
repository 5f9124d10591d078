/**
 * A stored response. Its content is encrypted; a store reads only the fields by which responses are found, ordered and
 * bounded.
 */
export interface StoredResponse {
  /** `resp_…`, the id that the client received. Unique within the account. */
  readonly id: string;
  readonly account: string;
  /** Store time. */
  readonly createdAtMs: number;
  /** The response that this one continues; null for the first of a conversation. */
  readonly previousId: string | null;
  /** Items of its own input and output, 1 or more. */
  readonly items: number;
  /** The response and its own input, encrypted for its account and id (USE-16). */
  readonly sealed: string;
}

/** Maximum number of responses stored for an account; the oldest beyond it are removed. */
export const responsesOfAccountMax = 10_000;

/** Bounds of one read of a conversation, so that a long one does not delay other calls of the store. */
export interface ConversationStep {
  readonly responsesMax: number;
  /** Characters of `sealed` after which no further response is read. */
  readonly charsMax: number;
}

/** Port of stored responses. All methods reject with `storage_unavailable`. */
export interface ResponseStore {
  /**
   * Stores a response durably and removes the account's oldest beyond `keepMax`. A response whose id exists is not changed,
   * so that a write may be repeated.
   */
  put(response: StoredResponse, keepMax: number): Promise<void>;
  /** Null if the response does not exist or was removed. */
  get(account: string, id: string): Promise<StoredResponse | null>;
  /**
   * A response and those that it continues, the newest first, up to the bounds or a missing one. Empty if `id` does not
   * exist.
   */
  conversation(account: string, id: string, step: ConversationStep): Promise<readonly StoredResponse[]>;
  /** False if the response does not exist. */
  delete(account: string, id: string): Promise<boolean>;
  /** Removes at most `max` responses created before `beforeMs`, of all accounts, and returns their number. */
  purge(beforeMs: number, max: number): Promise<number>;
}
