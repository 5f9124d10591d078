/** Forms and bounds of an upstream's settings, the same in the configuration and in requests. */

/**
 * Name of an upstream, the first part of the ids of its deployments: without a slash and without characters that a variable
 * or a header cannot have.
 */
export const upstreamNameForm = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
export const upstreamNameWords = "1 to 64 of a-z, A-Z, 0-9 and . _ -, beginning with a letter or digit";

/** First part of the ids of deployments of the embedded engines; no upstream may have this name. */
export const embeddedName = "embedded";

/** One API key. */
export const keyForm = /^[\x21-\x7e]{1,8192}$/;
export const keyWords = "1 to 8,192 printable ASCII characters without spaces";

export const headerNameForm = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/;

/** Headers that the service or the connection sets, in lower case. */
export const ownHeaderForm =
  /^(host|connection|content-.*|transfer-encoding|accept|accept-encoding|te|trailer|upgrade|expect)$/;

/** Headers that carry the key, by the kind of the upstream. */
export const credentialHeaders: readonly string[] = ["authorization", "api-key", "x-api-key"];

export const headerValueForm = /^[\x21-\x7e]([\x20-\x7e]{0,8190}[\x21-\x7e])?$/;
export const headerValueWords = "1 to 8,192 printable ASCII characters, without a space at the begin or end";

export const apiVersionForm = /^[A-Za-z0-9.-]{1,32}$/;

/** Path in the URL of an Azure resource that the service adds itself. */
export const azurePathForm = /^\/openai(\/|$)/;

interface Bounds {
  readonly min: number;
  readonly max: number;
  readonly default: number;
}

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;

/** Durations in milliseconds. */
export const upstreamDurations = {
  discover: { min: 1_000, max: day, default: 30_000 },
  connect: { min: 10, max: 10 * minute, default: 5_000 },
  firstByte: { min: 10, max: day, default: 60_000 },
  idle: { min: 10, max: hour, default: 30_000 },
  total: { min: 10, max: day, default: 600_000 },
} as const satisfies Record<string, Bounds>;

/** Bounds of a deployment's numbers. The default of `slots` is for deployments at upstreams. */
export const deploymentBounds = {
  weight: { min: 1, max: 1_000, default: 1 },
  priority: { min: 0, max: 100, default: 0 },
  slots: { min: 1, max: 65_536, default: 256 },
} as const satisfies Record<string, Bounds>;
