import type { Variables } from "./expand.js";
import { ConfigError, type ConfigProblem } from "./problem.js";
import { readSecretText } from "./secrets.js";

/** Settings of traces, from OpenTelemetry's variables. */
export interface TraceSettings {
  /** URL for spans over HTTP. */
  readonly endpoint: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly serviceName: string;
  /** Attributes of the process, in every span. */
  readonly resource: Readonly<Record<string, string>>;
  /** Name of the sampler, which decides which traces are recorded. */
  readonly sampler: string;
  readonly samplerArg: number;
  /** Variables without effect, each with its remedy. */
  readonly warnings: readonly string[];
}

const samplers = [
  "always_on",
  "always_off",
  "traceidratio",
  "parentbased_always_on",
  "parentbased_always_off",
  "parentbased_traceidratio",
];
const defaultSampler = "parentbased_always_on";

/** Reads the settings of traces; null if no endpoint is set or tracing is disabled. */
export function readTraceSettings(variables: Variables): TraceSettings | null {
  const read = (name: string): string | null => variables[name] || null;
  const base = read("OTEL_EXPORTER_OTLP_ENDPOINT");
  const endpoint = read("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") ?? (base === null ? null : tracesUrl(base));
  const isOff = read("OTEL_SDK_DISABLED")?.toLowerCase() === "true" || read("OTEL_TRACES_EXPORTER") === "none";
  if (endpoint === null || isOff) return null;
  const sampler = read("OTEL_TRACES_SAMPLER") ?? defaultSampler;
  const samplerArg = Number(read("OTEL_TRACES_SAMPLER_ARG") ?? 1);
  const protocol = read("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") ?? read("OTEL_EXPORTER_OTLP_PROTOCOL");
  const warnings: string[] = [];
  if (!samplers.includes(sampler)) {
    warnings.push(
      `OTEL_TRACES_SAMPLER=${sampler} is unknown, ${defaultSampler} is used: set one of ${samplers.join(", ")}`,
    );
  }
  if (!isShare(samplerArg)) warnings.push("OTEL_TRACES_SAMPLER_ARG is not a number from 0 to 1, 1 is used");
  if (protocol !== null && !protocol.startsWith("http/")) {
    warnings.push(
      `traces are sent over HTTP, not ${protocol}: set an endpoint for OTLP over HTTP, usually on port 4318`,
    );
  }
  const { "service.name": named, ...resource } = pairs(read("OTEL_RESOURCE_ATTRIBUTES"));
  return {
    endpoint,
    headers: { ...pairs(read("OTEL_EXPORTER_OTLP_HEADERS")), ...pairs(read("OTEL_EXPORTER_OTLP_TRACES_HEADERS")) },
    serviceName: read("OTEL_SERVICE_NAME") ?? named ?? "unified-inference",
    resource,
    sampler: samplers.includes(sampler) ? sampler : defaultSampler,
    samplerArg: isShare(samplerArg) ? samplerArg : 1,
    warnings,
  };
}

function tracesUrl(base: string): string {
  return `${base.replace(/\/+$/, "")}/v1/traces`;
}

function isShare(value: number): boolean {
  return value >= 0 && value <= 1;
}

/** Parses `name=value,name=value` with percent-encoded values; other items are ignored. */
function pairs(text: string | null): Record<string, string> {
  const found: Record<string, string> = {};
  for (const item of text?.split(",") ?? []) {
    const [name = "", ...values] = item.split("=");
    if (name.trim() !== "" && values.length > 0) found[name.trim()] = decoded(values.join("=").trim());
  }
  return found;
}

function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}

/** Settings of downloads. An empty string means that the setting is absent. */
interface DownloadSettings {
  /** URL of the model hub; absent: the public hub. */
  readonly hubEndpoint?: string;
  readonly hubToken: string;
  readonly httpProxy: string;
  readonly httpsProxy: string;
  /** Hosts that need no proxy. */
  readonly noProxy: string;
}

/** The problem of HF_TOKEN or HF_TOKEN_FILE, if there is one. */
export function hubTokenProblems(variables: Variables): readonly ConfigProblem[] {
  const hubToken = readSecretText("HF_TOKEN", variables);
  return "problem" in hubToken ? [hubToken.problem] : [];
}

/** Reads HF_ENDPOINT, HF_TOKEN and the proxy variables in either case. Throws ConfigError if the token cannot be read. */
export function readDownloadSettings(variables: Variables): DownloadSettings {
  const read = (...names: string[]): string => names.map((name) => variables[name]).find(Boolean) ?? "";
  const hubToken = readSecretText("HF_TOKEN", variables);
  if ("problem" in hubToken) throw new ConfigError([hubToken.problem], null);
  const hubEndpoint = read("HF_ENDPOINT");
  return {
    ...(hubEndpoint !== "" && { hubEndpoint }),
    hubToken: hubToken.text ?? "",
    httpProxy: read("HTTP_PROXY", "http_proxy"),
    httpsProxy: read("HTTPS_PROXY", "https_proxy"),
    noProxy: read("NO_PROXY", "no_proxy"),
  };
}
