/** Upstreams as typed into the forms, and the requests that the forms send. */
import type { UpstreamJson } from "../../../../gen/unified/admin/v1/upstream_pb.js";
import type {
  CheckUpstreamRequestJson,
  CreateUpstreamRequestJson,
  UpdateUpstreamRequestJson,
} from "../../../../gen/unified/admin/v1/upstream_service_pb.js";

/** Timeouts of a call in seconds as text; empty: the default. */
export const timeouts = {
  connect: { label: "Connect (s)", name: "connect", hint: "Default 5" },
  firstByte: { label: "First byte (s)", name: "first_byte", hint: "Default 60" },
  idle: { label: "Idle (s)", name: "idle", hint: "Default 30" },
  total: { label: "Total (s)", name: "total", hint: "Default 600" },
} as const;

export type Timeout = keyof typeof timeouts;

export const timeoutNames = Object.keys(timeouts) as readonly Timeout[];

export interface UpstreamDraft extends Readonly<Record<Timeout, string>> {
  readonly name: string;
  readonly url: string;
  /** Empty: a check of the server detects it. */
  readonly kind: string;
  /** Only for the kind `azure`. */
  readonly apiVersion: string;
  /** Empty: a new upstream has no key, an existing one keeps its key. */
  readonly key: string;
  /** One `name: value` per line. Empty: a new upstream has no headers, an existing one keeps its headers. */
  readonly headers: string;
  /** Empty: all models that the server lists. */
  readonly models: readonly string[];
  /** APIs whose requests the server gets unchanged. */
  readonly native: readonly string[];
  readonly weight: string;
  readonly priority: string;
  readonly slots: string;
}

export const emptyDraft: UpstreamDraft = {
  ...{ name: "", url: "", kind: "", apiVersion: "", key: "", headers: "", models: [], native: [] },
  ...{ connect: "", firstByte: "", idle: "", total: "" },
  ...{ weight: "1", priority: "0", slots: "256" },
};

/** The draft of a stored upstream, without its key and headers, which the service does not return. */
export function draftOf(upstream: UpstreamJson): UpstreamDraft {
  const { name = "", url = "", kind = "", apiVersion = "", models = [], native = [] } = upstream;
  const { weight = 1, priority = 0, slots = 1 } = upstream;
  const seconds = timeoutNames.map((timeout) => [timeout, secondsOf(upstream[timeout])]);
  return {
    ...emptyDraft,
    ...{ name, url, kind, apiVersion, models, native },
    ...{ weight: String(weight), priority: String(priority), slots: String(slots) },
    ...(Object.fromEntries(seconds) as Record<Timeout, string>),
  };
}

/** Seconds of a protobuf duration, which writes three digits behind the point. */
export function secondsOf(duration: string | undefined): string {
  return duration === undefined ? "" : String(Number.parseFloat(duration));
}

/** The request that checks the typed server. Throws for a malformed header line. */
export function checkRequest({ url, kind, key, headers }: UpstreamDraft): CheckUpstreamRequestJson {
  return { url: url.trim(), kind, key, headers: headersOf(headers) };
}

/** Throws for a malformed header line. */
export function createRequest(draft: UpstreamDraft, kind: string): CreateUpstreamRequestJson {
  const set = timeoutNames.filter((timeout) => draft[timeout].trim() !== "");
  return {
    upstream: {
      name: draft.name.trim(),
      url: draft.url.trim(),
      kind,
      ...(kind === "azure" ? { apiVersion: draft.apiVersion.trim() } : {}),
      models: [...draft.models],
      ...(draft.native.length === 0 ? {} : { native: [...draft.native] }),
      ...Object.fromEntries(set.map((timeout) => [timeout, durationOf(draft[timeout])])),
      ...shareOf(draft),
    },
    key: draft.key,
    headers: headersOf(draft.headers),
  };
}

/** Sends changed fields only. Throws for a malformed header line. */
export function updateRequest(before: UpstreamDraft, draft: UpstreamDraft): UpdateUpstreamRequestJson {
  const changed = timeoutNames.filter((timeout) => draft[timeout] !== before[timeout] && draft[timeout].trim() !== "");
  const isSame = (field: "models" | "native") => before[field].join("\n") === draft[field].join("\n");
  return {
    name: draft.name,
    ...(draft.url === before.url ? {} : { url: draft.url.trim() }),
    ...(draft.apiVersion === before.apiVersion ? {} : { apiVersion: draft.apiVersion.trim() }),
    ...(isSame("models") ? {} : { models: { values: [...draft.models] } }),
    ...(isSame("native") ? {} : { native: { values: [...draft.native] } }),
    ...Object.fromEntries(changed.map((timeout) => [timeout, durationOf(draft[timeout])])),
    ...shareOf(draft),
    ...(draft.key === "" ? {} : { key: draft.key }),
    ...(draft.headers.trim() === "" ? {} : { headers: { values: headersOf(draft.headers) } }),
  };
}

function shareOf({ weight, priority, slots }: UpstreamDraft) {
  return { weight: Number(weight), priority: Number(priority), slots: Number(slots) };
}

/** A protobuf duration. */
function durationOf(seconds: string): string {
  return `${Number(seconds)}s`;
}

/** An error that the form itself finds. `param` is the field's name in errors of the service. */
class FormError extends Error {
  override readonly name = "FormError";
  readonly param: string;
  constructor(param: string, message: string) {
    super(message);
    this.param = param;
  }
}

function headersOf(text: string): { [name: string]: string } {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  return Object.fromEntries(
    lines.map((line) => {
      const [, name = "", value = ""] = /^\s*([^\s:]+)\s*:\s*(.*?)\s*$/.exec(line) ?? [];
      if (name === "") throw new FormError("headers", "Each line must be a header: “name: value”.");
      return [name, value];
    }),
  );
}
