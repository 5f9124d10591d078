import { isIPv6 } from "node:net";
import * as z from "zod";
import { limitsSettings, rateLimitSettings } from "./limits-settings.js";
import { checkModels } from "./model-references.js";
import { modelSettings } from "./model-settings.js";
import { checkRole, checkWorkers, coreSettings, workerSetting } from "./process-settings.js";
import { duration, durationOrOff, oneOf, text, trueOrFalse, wholeNumber } from "./setting-types.js";
import { upstreamsSettings } from "./upstream-settings.js";
import { addressRange, webhookSettings } from "./webhook-settings.js";

const port = wholeNumber(0, 65_535);
const file = text("the path of a file").nullable().prefault(null);
const hostName = z
  .string({ error: "must be text" })
  .refine((name) => isHostName(name), { error: "must be a host name without scheme and port" });
const origin = z.string({ error: "must be text" }).refine((value) => value === "*" || isOrigin(value), {
  error: 'must be an origin such as https://example.com, or "*"',
});

/** `engine:`, the processes of the embedded engine. */
const engineKinds = z.strictObject({
  stall: duration(100, 600_000)
    .prefault("30s")
    .describe("Time without progress after which an engine process is killed and restarted."),
  circuit_crashes: wholeNumber(1, 1_000_000)
    .prefault(5)
    .describe(
      "Maximum crashes of a model's process within five minutes. One more pauses its restarts for a time (circuit breaker).",
    ),
  threads: wholeNumber(1, 1024)
    .nullable()
    .prefault(null)
    .describe("Threads per model. Null: the number of cores minus one."),
  gpu: oneOf(["auto", "off"])
    .prefault("auto")
    .describe("`auto`: a graphics card, if a build for it is installed (`uis engine list`). `off`: the processor."),
  gpu_layers: wholeNumber(0, 10_000)
    .nullable()
    .prefault(null)
    .describe(
      "Maximum layers of a model on the graphics card, fewer if its free memory is too small. Null: as many as fit.",
    ),
  module_dir: text("the path of a folder")
    .nullable()
    .prefault(null)
    .describe("Folder whose node_modules has another build of node-llama-cpp, e.g. for a GPU."),
});

const redisUrl = text("a Redis URL")
  .regex(/^(rediss?:\/\/|rediss?\+(sentinel|cluster):\/\/|[^\s/,]+(:\d+)?(,[^\s/,]+(:\d+)?)+$)/, {
    error:
      "must begin with redis://, rediss://, redis+sentinel:// or redis+cluster://, or list nodes of a cluster with commas: host:port,host:port",
  })
  .nullable()
  .prefault(null)
  .describe(
    "Redis that all replicas share: one server, a Sentinel group or a cluster. Null: an embedded database file.",
  );

/** `state:`, the store of keys, limits, usage and deliveries. */
const stateSettings = z.strictObject({
  redis_url: redisUrl,
  durability: oneOf(["every-write", "none"])
    .prefault("every-write")
    .describe(
      "`every-write`: writes are as durable as the store allows. `none`: data is only in memory and lost at a stop.",
    ),
  allow_volatile: trueOrFalse
    .prefault(false)
    .describe("Whether to accept a Redis without an append-only file, which loses its data at a stop."),
  redis_tls: z
    .strictObject({
      ca_file: file.describe("CA certificates of Redis servers, PEM. Null: the system's."),
      cert_file: file.describe("Client certificate, PEM."),
      key_file: file.describe("Private key of `cert_file`, PEM."),
      server_name: text("a host name")
        .nullable()
        .prefault(null)
        .describe("Name in the certificate of Redis. Null: the host of the URL."),
    })
    .prefault({}),
  start_timeout: duration(100, 600_000)
    .prefault("30s")
    .describe("How long a start waits for a Redis that is unreachable or slow."),
  clock_lead_max: duration(10_000, 86_400_000)
    .prefault("5m")
    .describe(
      "How far the store's time may be ahead of this machine's clock after the clock was set back. If the clock is set " +
        "back further, the store's time follows it immediately.",
    ),
  when_away: oneOf(["local", "deny", "allow"])
    .prefault("local")
    .describe(
      "Rate limits while Redis is unavailable. `local`: each process admits its share of them; `deny`: requests get 503; " +
        "`allow`: all requests are admitted.",
    ),
  spool_max: wholeNumber(1_000, 10_000_000)
    .prefault(1_000_000)
    .describe(
      "Maximum settlements (usage of ended requests) that wait in the data folder, in the spool, while the store is " +
        "unavailable.",
    ),
  spool_full: oneOf(["refuse", "uncounted"])
    .prefault("refuse")
    .describe(
      "When the spool is full: `refuse` rejects new inference with 503, `uncounted` serves it without recording its usage " +
        "and logs errors.",
    ),
});

const tls = z.strictObject({
  cert_file: file.describe("Certificate chain, PEM. If it is set, the HTTP and gRPC listeners use TLS."),
  key_file: file.describe("Private key of `cert_file`, PEM."),
  client_ca_file: file.describe("CA certificates, PEM. Clients must present a certificate that one of them issued."),
});

const server = z.strictObject({
  host: text("an address or host name").prefault("127.0.0.1").describe("Address of the HTTP and gRPC listeners."),
  port: port.prefault(8080).describe("Port of the HTTP listener: REST, Connect and gRPC-Web. 0 picks a free port."),
  grpc_port: port.prefault(50_051).describe("Port of the gRPC listener. 0 picks a free port."),
  ops_port: port
    .prefault(9464)
    .describe("Port of the listener for operators: health, metrics and state. 0 picks a free port."),
  ops_host: text("an address or host name").prefault("127.0.0.1").describe("Address of the listener for operators."),
  ops_token_file: file.describe(
    "File with a token of 16 to 256 characters. `/metrics`, `/debug/state` and the details of `/ready` on the listener " +
      "for operators require it as a bearer credential. Null: none is required.",
  ),
  role: oneOf(["all", "core", "gateway"])
    .prefault("all")
    .describe(
      "`all`: one process does everything. `core`: runs models for gateways. `gateway`: serves clients, and calls the cores " +
        "of `core.addresses`.",
    ),
  workers: workerSetting,
  cors_origins: z
    .array(origin, { error: "must be a list of origins" })
    .prefault([])
    .describe("Web origins that may call the HTTP listener. Empty: none."),
  allowed_hosts: z
    .array(hostName, { error: "must be a list of host names" })
    .prefault([])
    .describe("Host names that the `Host` header of requests may have. Empty: all."),
  drain_delay: duration(0, 3_600_000)
    .nullable()
    .prefault(null)
    .describe(
      "How long connections are accepted after a stop signal. Null: 0s if `server.host` is a loopback address, else 5s.",
    ),
  tls: tls.prefault({}),
});

/** `requests:`, the request log. */
const requestSettings = z.strictObject({
  keep: wholeNumber(0, 100_000)
    .prefault(0)
    .describe(
      "Number of requests in the request log, about 1 kB each. Set the same on all replicas. 0: no request log.",
    ),
  keep_content: trueOrFalse
    .prefault(false)
    .describe("Whether the request log keeps prompts and answers, up to 64 kB for a request."),
});

/** `responses:`, stored responses of the Responses API. */
const responseSettings = z.strictObject({
  keep: durationOrOff(1_000, 366 * 86_400_000)
    .prefault(0)
    .describe(
      "How long responses of /v1/responses are stored, 1s to 366d. Set the same on all replicas. 0: no responses are " +
        "stored, and stored ones are deleted.",
    ),
});

/** All settings, each checked by itself. */
export const settingsSchema = z.strictObject({
  server: server.prefault({}),
  data_dir: text("the path of a folder").prefault("./data").describe("Data folder. Created with mode 0700."),
  spill_dir: file.describe(
    "Folder on another disk, to which a stop writes usage that it cannot write to the data folder.",
  ),
  log: z
    .strictObject({
      level: oneOf(["trace", "debug", "info", "warn", "error", "fatal", "silent"])
        .prefault("info")
        .describe("Lowest level that is written to stderr."),
      format: oneOf(["auto", "json", "pretty"])
        .prefault("auto")
        .describe("Form of the lines: `json` for machines, `pretty` for people. `auto`: `pretty` on a terminal."),
    })
    .prefault({}),
  state: stateSettings.prefault({}),
  models: z
    .array(modelSettings, { error: "must be a list of models" })
    .nullable()
    .prefault(null)
    .describe("The catalog. Empty: no model. Null: pulled and imported models, else the default models."),
  model_store: z
    .strictObject({
      import_dirs: z
        .array(text("the path of a folder"), { error: "must be a list of folders" })
        .prefault([])
        .describe("Folders from which dashboard sessions may import models. The command line may import any file."),
      pull_allow: z
        .array(addressRange, { error: "must be a list of address ranges" })
        .prefault([])
        .describe(
          "Private addresses from which dashboard sessions may pull models by URL. Link-local addresses are never allowed.",
        ),
    })
    .prefault({}),
  offline: trueOrFalse.prefault(false).describe("Whether no model may be downloaded."),
  sse: z
    .strictObject({
      keep_alive: oneOf(["comment", "chunk", "off"])
        .prefault("comment")
        .describe("Keep-alive on a silent event stream: a comment line, an empty chunk, or nothing."),
    })
    .prefault({}),
  grpc: z
    .strictObject({ reflection: trueOrFalse.prefault(false).describe("Offer gRPC server reflection.") })
    .prefault({}),
  limits: limitsSettings.prefault({}),
  core: coreSettings.prefault({}),
  upstreams: upstreamsSettings,
  engine: engineKinds.prefault({}),
  rate_limits: rateLimitSettings.prefault({}),
  webhooks: webhookSettings.prefault({}),
  metrics: z
    .strictObject({
      histogram_models: wholeNumber(0, 1_000)
        .prefault(20)
        .describe(
          "Maximum models, and maximum deployments, that have their own series in histograms: the first that are used. " +
            "All others share one series.",
        ),
    })
    .prefault({}),
  requests: requestSettings.prefault({}),
  responses: responseSettings.prefault({}),
});

/** The whole configuration. Defaults are filled in; unknown names are errors. */
export const configSchema = settingsSchema.check(({ value: config, issues }) => {
  checkTogether(config, (path, message) => issues.push({ code: "custom", input: config, path, message }));
});

/** Checks what depends on more than one setting. */
export function checkTogether(config: z.output<typeof settingsSchema>, report: Report): void {
  checkServer(config.server, report);
  checkRole(config.server.role, config.core, config.state.redis_url, report);
  if (config.state.redis_url !== null && config.state.durability === "none") {
    report(["state", "durability"], "is none, but redis_url is set: remove one of them");
  }
  checkWorkers(config, report);
  checkModels(config.models ?? [], config.upstreams, report);
}

export type Config = z.output<typeof configSchema>;

type Report = (path: (string | number)[], message: string) => void;

function checkServer(settings: z.output<typeof server>, report: Report): void {
  const { cert_file, key_file, client_ca_file } = settings.tls;
  if ((cert_file === null) !== (key_file === null)) {
    const missing = cert_file === null ? "cert_file" : "key_file";
    report(["server", "tls", missing], "is required: set the certificate and its key together");
  } else if (cert_file === null && client_ca_file !== null) {
    report(["server", "tls", "client_ca_file"], "needs cert_file and key_file");
  }
  const seen = new Map<number, string>();
  for (const name of ["port", "grpc_port", "ops_port"] as const) {
    const taken = seen.get(settings[name]);
    if (taken !== undefined) report(["server", name], `is the same as ${taken}: each listener needs its own port`);
    if (settings[name] !== 0) seen.set(settings[name], name);
  }
}

function isOrigin(text: string): boolean {
  return URL.canParse(text) && new URL(text).origin === text;
}

function isHostName(name: string): boolean {
  const bare = name.startsWith("[") && name.endsWith("]") ? name.slice(1, -1) : name;
  return isIPv6(bare) || /^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$/.test(bare);
}
