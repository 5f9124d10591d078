import type { CapabilityName, UpstreamKind } from "./kinds.js";

/**
 * One upstream server. The models of one settings object share its connections and the state of its keys, so the
 * configuration passes the same object for all deployments of an upstream.
 */
export interface UpstreamSettings {
  /** As the configuration names it; for logs and metrics. */
  readonly name: string;
  /** Base of its API, such as `http://vllm:8000/v1`; without a path `/v1` is added. For Azure the resource. */
  readonly url: string;
  readonly kind: UpstreamKind;
  /** Azure only: the version of paths that name a deployment; null: the paths below `/openai/v1`. */
  readonly apiVersion: string | null;
  /** Empty: requests carry no credential. */
  readonly keys: readonly string[];
  /** Added to every request. */
  readonly headers: Readonly<Record<string, string>>;
  /** From the start of an attempt until the request is sent: name look-up, TCP and TLS. */
  readonly connectMs: number;
  /** From there until the first byte of the answer's body. */
  readonly firstByteMs: number;
  /** Between two reads of the body. */
  readonly idleMs: number;
  /** One attempt as a whole. */
  readonly totalMs: number;
  /** PEM texts; null: Node's certificate authorities, no client certificate. */
  readonly tls: { readonly ca: string | null; readonly cert: string | null; readonly key: string | null };
}

/** Options of a deployment that an upstream server serves. */
export interface UpstreamDeployment {
  readonly upstream: UpstreamSettings;
  /** Id of the model on the server. */
  readonly model: string;
  /** Fields outside the contract that requests may carry to the server. */
  readonly passThrough: readonly string[];
  /** Null: as the server says, or unknown. */
  readonly contextLength: number | null;
  /** Null: those of the kind. */
  readonly capabilities: readonly CapabilityName[] | null;
}
