import { type SecretBox, UnsealError } from "../../lib/crypto.js";
import type { CallContext } from "../call/call-context.js";
import { CircuitBreaker } from "../call/circuit-breaker.js";
import type { Clock, Logger } from "../call/ports.js";
import { quote, refuse, ServiceError } from "../call/service-error.js";
import { type ResponseStore, responsesOfAccountMax, type StoredResponse } from "./response-store.js";

export interface StoredResponsesDeps {
  readonly store: Pick<ResponseStore, "put" | "get" | "conversation" | "delete">;
  readonly secrets: Pick<SecretBox, "seal" | "open">;
  readonly clock: Pick<Clock, "monotonic">;
  /** Store time. */
  readonly now: () => number;
  /** How long a response is stored. */
  readonly keepMs: number;
  readonly log: Logger;
}

export type ResponseCaller = Pick<CallContext, "principal">;

/** One item of an input or output, as JSON. */
export type ResponseItem = Readonly<Record<string, unknown>>;

/** A finished response that is to be stored. */
export interface NewResponse {
  readonly id: string;
  /** The response that it continues; null: none. */
  readonly previousId: string | null;
  /** The response as it is answered: a JSON object with the list `output`. */
  readonly json: string;
  /** The items of its own request, without those of earlier responses. */
  readonly input: readonly ResponseItem[];
}

/** Maximum UTF-8 bytes of a response with its own input. */
export const responseBytesMax = 1_048_576;
/** Maximum items of a conversation: those of earlier responses and of the new input. */
export const conversationItemsMax = 1_000;
/** Maximum characters of a conversation's stored responses. They are encrypted, so that this is 12 MiB of text. */
const conversationCharsMax = 16 * 1_048_576;
/** Bounds of one read of a conversation, which takes the store some milliseconds. */
const step = { responsesMax: 100, charsMax: 1_048_576 };
/** Maximum characters of responses that wait for the store. */
const waitingCharsMax = 64 * 1_048_576;
/** Log messages of the circuit breaker. */
const messages = {
  unavailable: "responses cannot be stored; answers say store: false",
  recovered: "responses are stored again",
};

const idForm = /^resp_[A-Za-z0-9_-]{1,128}$/;

/**
 * Responses that clients can read, delete and continue for a time. Each belongs to the account of its request: a response of
 * another account gives the same error as one that does not exist. Rejects with ServiceError.
 */
export class StoredResponses {
  readonly #deps: StoredResponsesDeps;
  /** Without it every answer would wait while the store does not respond. */
  readonly #breaker: CircuitBreaker;
  #waitingChars = 0;

  constructor(deps: StoredResponsesDeps) {
    this.#deps = deps;
    this.#breaker = new CircuitBreaker({ ...deps, messages });
  }

  /**
   * Stores a response durably; never rejects. False: it is larger than 1 MiB, or the store did not accept it. The client
   * receives its answer in any case, because its tokens are spent.
   */
  async put({ id, previousId, json, input }: NewResponse, { principal }: ResponseCaller): Promise<boolean> {
    const { store, secrets, now } = this.#deps;
    const { account } = principal;
    const content = `${JSON.stringify(input)}\n${json}`;
    if (Buffer.byteLength(content) > responseBytesMax) return false;
    const hasRoom = this.#waitingChars + content.length <= waitingCharsMax;
    if (!hasRoom) this.#breaker.failed(new Error("too many responses wait for the store"));
    if (!hasRoom || !this.#breaker.allowsCall) return false;
    this.#waitingChars += content.length;
    try {
      const items = Math.max(1, input.length + outputOf(json).length);
      const sealed = secrets.seal(content, ownerOf(account, id));
      await store.put({ id, account, createdAtMs: now(), previousId, items, sealed }, responsesOfAccountMax);
      this.#breaker.succeeded();
      return true;
    } catch (err) {
      this.#breaker.failed(err);
      return false;
    } finally {
      this.#waitingChars -= content.length;
    }
  }

  /** The response as JSON text, as it was answered. */
  async get(id: string, caller: ResponseCaller): Promise<string> {
    return jsonOf(this.#open(await this.#find(id, caller)) ?? missing(id));
  }

  async delete(id: string, caller: ResponseCaller): Promise<void> {
    // A response that has expired but is still stored counts as missing.
    await this.#find(id, caller);
    if (!(await this.#deps.store.delete(caller.principal.account, id))) missing(id);
  }

  /** All items that a response was generated from, the oldest first: those of earlier responses that are stored, and its own. */
  async inputOf(id: string, caller: ResponseCaller): Promise<readonly ResponseItem[]> {
    const response = await this.#find(id, caller);
    const own = inputIn(this.#open(response) ?? missing(id));
    if (response.previousId === null) return own;
    const { items } = await this.#read(response.previousId, caller, conversationItemsMax);
    return [...items, ...own];
  }

  /**
   * The items of a response and of those that it continues, the oldest first, as the beginning of a request with
   * `newItems` items. Rejects with 400 if one of them is not stored, or the whole is longer than a conversation may be.
   */
  async itemsBefore(id: string, newItems: number, caller: ResponseCaller): Promise<readonly ResponseItem[]> {
    const itemsMax = Math.max(0, conversationItemsMax - newItems);
    const { items, missingId, isTooLong } = await this.#read(id, caller, itemsMax);
    if (isTooLong) {
      refuse(
        "array_above_max_length",
        param,
        `The conversation of 'previous_response_id' is too long: with the new input it may have at most ${conversationItemsMax} items and 12 MiB.`,
      );
    }
    if (missingId === id) refuse("previous_response_not_found", param, `Previous response ${quote(id)} is not stored.`);
    if (missingId !== null) {
      refuse(
        "previous_response_not_found",
        param,
        `The conversation of 'previous_response_id' cannot be continued: its earlier response ${quote(missingId)} has expired or was deleted.`,
      );
    }
    return items;
  }

  /** Reads a conversation from its newest response, in steps. */
  async #read(newestId: string, { principal }: ResponseCaller, itemsMax: number): Promise<ReadConversation> {
    const { store } = this.#deps;
    const parts: (readonly ResponseItem[])[] = [];
    let items = 0;
    let chars = 0;
    let next: string | null = newestId;
    while (next !== null) {
      const found: readonly StoredResponse[] = idForm.test(next)
        ? await store.conversation(principal.account, next, step)
        : [];
      if (found.length === 0) break;
      for (const response of found) {
        const content = this.#isExpired(response) ? null : this.#open(response);
        if (content === null) return { items: parts.reverse().flat(), missingId: response.id, isTooLong: false };
        items += response.items;
        chars += response.sealed.length;
        if (items > itemsMax || chars > conversationCharsMax) return { items: [], missingId: null, isTooLong: true };
        parts.push([...inputIn(content), ...outputOf(jsonOf(content))]);
        next = response.previousId;
      }
    }
    return { items: parts.reverse().flat(), missingId: next, isTooLong: false };
  }

  async #find(id: string, { principal }: ResponseCaller): Promise<StoredResponse> {
    const found = idForm.test(id) ? await this.#deps.store.get(principal.account, id) : null;
    return found === null || this.#isExpired(found) ? missing(id) : found;
  }

  #isExpired({ createdAtMs }: StoredResponse): boolean {
    return createdAtMs <= this.#deps.now() - this.#deps.keepMs;
  }

  /** Decrypts a response. Returns null, and logs an error, if it was encrypted with another key. */
  #open({ account, id, sealed }: StoredResponse): string | null {
    const { secrets, log } = this.#deps;
    try {
      return secrets.open(sealed, ownerOf(account, id));
    } catch (err) {
      if (!(err instanceof UnsealError)) throw err;
      log.error({ err, response: id }, "a stored response cannot be decrypted");
      return null;
    }
  }
}

interface ReadConversation {
  readonly items: readonly ResponseItem[];
  /** The response that is not stored; null: none. */
  readonly missingId: string | null;
  readonly isTooLong: boolean;
}

const param = "previous_response_id";

function missing(id: string): never {
  throw new ServiceError("not_found", `There is no response ${quote(id)}.`);
}

function ownerOf(account: string, id: string): string {
  return `response/${account}/${id}`;
}

/** Content has two JSON texts: the input in its first line, then the response. */
function inputIn(content: string): readonly ResponseItem[] {
  return JSON.parse(content.slice(0, content.indexOf("\n"))) as readonly ResponseItem[];
}

function jsonOf(content: string): string {
  return content.slice(content.indexOf("\n") + 1);
}

function outputOf(json: string): readonly ResponseItem[] {
  return (JSON.parse(json) as { readonly output: readonly ResponseItem[] }).output;
}
