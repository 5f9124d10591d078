import type OpenAI from "openai";
import type { ClientOptions } from "openai";
import type { Target } from "./models.js";

/** The visible properties of an error that the SDK raised. */
export interface RaisedError {
  readonly name: string;
  readonly status: number | null;
  readonly code: string | null;
  readonly type: string | null;
  readonly param: string | null;
  readonly message: string;
  readonly requestId: string | null;
  readonly retryAfter: string | null;
  readonly retryAfterMs: string | null;
}

/**
 * Context of a scenario. The SDK class is passed in, so that a scenario runs with every major version. This
 * file and the scenarios import only types, so that Node 24 runs them without a build.
 */
export interface OpenAiContext {
  readonly target: Target;
  /** A client without retries, unless the options say otherwise. */
  client(options?: ClientOptions): OpenAI;
  /** A client that counts its HTTP requests. */
  counting(options?: ClientOptions): { readonly client: OpenAI; attempts(): number };
  /** Returns the error of a promise that must reject. */
  raised(promise: Promise<unknown>): Promise<RaisedError>;
}

export function createContext(Sdk: typeof OpenAI, target: Target): OpenAiContext {
  const client = (options: ClientOptions = {}) =>
    new Sdk({ apiKey: target.key, baseURL: target.api, maxRetries: 0, ...options });
  return {
    target,
    client,
    counting(options) {
      let attempts = 0;
      const counted: typeof fetch = (input, init) => {
        attempts += 1;
        return fetch(input, init);
      };
      return { client: client({ ...options, fetch: counted }), attempts: () => attempts };
    },
    async raised(promise) {
      try {
        await promise;
      } catch (error) {
        if (error instanceof Sdk.APIError) return describeError(error);
        throw error;
      }
      throw new Error("nothing was raised");
    },
  };
}

function describeError(error: InstanceType<typeof OpenAI.APIError>): RaisedError {
  return {
    name: error.constructor.name,
    status: error.status ?? null,
    code: error.code ?? null,
    type: error.type ?? null,
    param: error.param ?? null,
    message: error.message,
    requestId: error.requestID ?? null,
    retryAfter: error.headers?.get("retry-after") ?? null,
    retryAfterMs: error.headers?.get("retry-after-ms") ?? null,
  };
}
