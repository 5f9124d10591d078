import * as z from "zod";
import { kindsWithNativeApis, nativeApis, upstreamKinds } from "../../domain/engine/upstream.js";
import {
  apiVersionForm,
  azurePathForm,
  embeddedName,
  headerNameForm,
  headerValueForm,
  headerValueWords,
  keyForm,
  keyWords,
  ownHeaderForm,
  upstreamDurations,
  upstreamNameForm,
  upstreamNameWords,
} from "../../domain/engine/upstream-forms.js";
import { checkUpstreamUrl } from "../../domain/engine/upstream-url.js";
import { duration, oneOf, text } from "./setting-types.js";

const upstreamName = z
  .string()
  .regex(upstreamNameForm, { error: `must be a name of an upstream: ${upstreamNameWords}` })
  .refine((name) => name !== embeddedName, { error: "is reserved for deployments without an upstream: rename it" });

/** `UIS_UPSTREAM_GPU_1_KEY` of `gpu-1`: upper case, and `_` for every other character than a letter or digit. */
export function upstreamKeyVariable(name: string): string {
  return `UIS_UPSTREAM_${name.toUpperCase().replace(/[^A-Z0-9]/g, "_")}_KEY`;
}

const url = z
  .string({ error: "must be text" })
  .check(({ value, issues }) => {
    const checked = checkUpstreamUrl(value);
    if ("refusal" in checked) issues.push({ code: "custom", input: value, message: checked.refusal });
  })
  .describe("Base URL, to which paths such as /chat/completions are appended. Kind azure: the URL of the resource.");

/** Error text of a map: for an invalid key the error of the key, otherwise `message`. */
const orOfKey = (message: string) => (issue: z.core.$ZodRawIssue) =>
  issue.code === "invalid_key" ? issue.issues[0]?.message : message;

const file = (description: string) =>
  text("the path of a file").nullable().prefault(null).describe(`${description} Null: none.`);

/** A header that the configuration may set. */
export const headerName = z
  .string()
  .regex(headerNameForm, { error: "must be the name of a header" })
  .refine((name) => !ownHeaderForm.test(name.toLowerCase()), { error: "is set by the service: remove it" });

export const headerValue = z.string({ error: "must be text" }).regex(headerValueForm, {
  error: `must be ${headerValueWords}`,
});

export const apiVersion = z
  .string({ error: "must be text" })
  .regex(apiVersionForm, { error: "must be a version such as 2024-10-21" });

const discoverError = "must be off, or a time between 1s and 1d such as 30s";

/** A duration within the bounds of a setting. */
function lasting(name: keyof typeof upstreamDurations) {
  const { min, max } = upstreamDurations[name];
  return duration(min, max);
}

const discover = z
  .union([z.literal("off"), lasting("discover")], { error: discoverError })
  .nullable()
  .prefault(null)
  .describe(
    "Interval at which the upstream is queried for its models, which are then offered, or `off`. Null: `30s` if no entry " +
      "of `models` names the upstream, else `off`.",
  );

const tlsSettings = z.strictObject({
  ca_file: file("CA certificates, PEM, that verify this server instead of the system's."),
  cert_file: file("Client certificate, PEM."),
  key_file: file("Private key of `cert_file`, PEM."),
  server_name: text("a host name")
    .nullable()
    .prefault(null)
    .describe("Name in the certificate of the server. Null: the host of the URL."),
});

/** One entry of `upstreams:`. */
const upstream = z
  .strictObject({
    url,
    kind: oneOf(upstreamKinds)
      .prefault("generic")
      .describe(
        "Server program or provider at the URL. `generic`: any other with OpenAI's API; `anthropic`: Anthropic's Messages " +
          "API.",
      ),
    api_version: apiVersion
      .nullable()
      .prefault(null)
      .describe(
        "Kind azure: API version of the paths below /openai/deployments. Null: the paths below /openai/v1 are used.",
      ),
    key: z
      .string({ error: "must be text: an API key" })
      .regex(keyForm, { error: `must be ${keyWords}` })
      .nullable()
      .prefault(null)
      .describe(`API key. Write \`\${NAME}\` to read it from a variable, or better set \`key_file\`. Null: none.`),
    key_file: file("File with one API key."),
    keys_file: file("File with several API keys, one per line. Empty lines and those that begin with # are skipped."),
    headers: z
      .record(headerName, headerValue, { error: orOfKey("must be text by the names of headers") })
      .prefault({})
      .describe("Further headers of every request to the upstream. Their values are treated as secrets."),
    discover,
    connect: lasting("connect").prefault("5s").describe("Maximum time to establish a connection. 10ms to 10m."),
    first_byte: lasting("firstByte")
      .prefault("60s")
      .describe(
        "Maximum time from the request to the first byte of the answer, and between reports of progress before it. 10ms " +
          "to 1d.",
      ),
    idle: lasting("idle").prefault("30s").describe("Maximum time between two parts of an answer. 10ms to 1h."),
    total: lasting("total")
      .prefault("600s")
      .describe("Maximum time of a whole call, 10ms to 1d. `limits.deadline` applies if it is shorter."),
    tls: tlsSettings.prefault({}).describe("TLS of the connection, if the url begins with https://."),
    native: z
      .array(oneOf(nativeApis), { error: "must be a list of responses and messages" })
      .prefault([])
      .describe(
        "APIs that the upstream implements itself in addition to chat: responses, messages. Their requests are forwarded " +
          "without translation to chat. Only for the kinds openai, anthropic, vllm, llama-server and generic.",
      ),
  })
  .check(({ value: settings, issues }) => {
    const report = (path: (string | number)[], message: string) =>
      issues.push({ code: "custom", input: settings, path, message });
    checkKeys(settings, report);
    checkAzure(settings, report);
    checkTls(settings, report);
    const names = Object.keys(settings.headers).map((name) => name.toLowerCase());
    const twice = names.find((name, i) => names.indexOf(name) !== i);
    if (twice !== undefined) report(["headers"], `${twice} is set twice, in different spellings: remove one`);
    const repeated = settings.native.find((name, i) => settings.native.indexOf(name) !== i);
    if (repeated !== undefined) report(["native"], `${repeated} is listed twice: remove one`);
    if (settings.native.length > 0 && !kindsWithNativeApis.includes(settings.kind)) {
      report(["native"], `is for the kinds ${kindsWithNativeApis.join(", ")} alone: remove it`);
    }
  });

export type UpstreamSettings = z.output<typeof upstream>;

type Report = (path: (string | number)[], message: string) => void;

function checkKeys(settings: { readonly [Name in "key" | "key_file" | "keys_file"]: string | null }, report: Report) {
  const [first, second] = (["key", "key_file", "keys_file"] as const).filter((name) => settings[name] !== null);
  if (first !== undefined && second !== undefined) report([second], `is set, and ${first} too: set one of them`);
}

function checkAzure(
  { kind, api_version, url }: { readonly kind: string; readonly api_version: string | null; readonly url: string },
  report: Report,
) {
  if (kind !== "azure") {
    if (api_version !== null) report(["api_version"], "is only for the kind azure: remove it, or set kind: azure");
  } else if (URL.canParse(url) && azurePathForm.test(new URL(url).pathname)) {
    report(["url"], "must be the resource for the kind azure, such as https://NAME.openai.azure.com, without /openai");
  }
}

function checkTls({ url, tls }: { readonly url: string; readonly tls: z.output<typeof tlsSettings> }, report: Report) {
  const { cert_file, key_file } = tls;
  const isSet = Object.values(tls).some((value) => value !== null);
  if (isSet && url.startsWith("http:")) report(["tls"], "is set, but the url begins with http://: use https://");
  if ((cert_file === null) !== (key_file === null)) {
    const missing = cert_file === null ? "cert_file" : "key_file";
    report(["tls", missing], "is required: set the certificate and its key together");
  }
}

/** `upstreams:` of the configuration. */
export const upstreamsSettings = z
  .record(upstreamName, upstream, { error: orOfKey("must be settings by the names of upstreams") })
  .prefault({})
  .check(({ value: upstreams, issues }) => {
    const taken = new Map<string, string>();
    for (const name of Object.keys(upstreams)) {
      const variable = upstreamKeyVariable(name);
      const other = taken.get(variable);
      if (other !== undefined) {
        const message = `has the variable ${variable}, as ${other} has: rename one of them`;
        issues.push({ code: "custom", input: upstreams, path: [name], message });
      }
      taken.set(variable, name);
    }
  })
  .describe("Inference servers and providers by name. See docs/upstreams.md.");
