import type { NativeApi } from "./upstream.js";

/**
 * A request of another API family as its client sent it, for upstreams that have this API themselves: nothing of it is lost
 * by a translation to chat and back. Other engines run the translation, and never see it.
 */
export interface NativeRequest {
  readonly api: NativeApi;
  /** Id of the model as the client sent it, which the answer has again. */
  readonly model: string;
  /** All fields of the body but `model` and `stream`, as JSON text by name: read only where an upstream gets them. */
  fieldsJson(): Readonly<Record<string, string>>;
  /** Headers of the client that belong to the API, by lower-case name: `anthropic-beta`. */
  readonly headers: Readonly<Record<string, string>>;
}
