import type { NativeApi } from "./upstream.js";

/**
 * A request of another API family as its client sent it. Upstreams that have this API themselves receive it, so that no
 * field is lost by a translation to a chat completion and back. Other engines run the translation and do not receive the
 * original.
 */
export interface NativeRequest {
  readonly api: NativeApi;
  /** Id of the model as the client sent it; the answer repeats it. */
  readonly model: string;
  /**
   * All fields of the body except `model` and `stream`, as JSON text by name. Called only when an upstream receives them.
   */
  fieldsJson(): Readonly<Record<string, string>>;
  /** Headers of the client that belong to the API, by lower-case name: `anthropic-beta`. */
  readonly headers: Readonly<Record<string, string>>;
}
