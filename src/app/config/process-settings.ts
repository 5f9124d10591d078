import { isIP } from "node:net";
import { availableParallelism } from "node:os";
import * as z from "zod";
import { deploymentsOf } from "./model-references.js";
import type { ModelSettings } from "./model-settings.js";
import { text, wholeNumber } from "./setting-types.js";

/** Settings that divide a service into processes: gateways and cores on several machines, workers on one. */

const file = text("the path of a file").nullable().prefault(null);

const address = z.string({ error: "must be text" }).refine((value) => isCoreAddress(value), {
  error: "must be host:port or dns:///host:port, such as dns:///cores:50051",
});

/** `core:`, the way from gateways to cores. */
export const coreSettings = z.strictObject({
  addresses: z
    .array(address, { error: "must be a list of addresses" })
    .prefault([])
    .describe(
      "Role `gateway`: its cores, as `host:port` or `dns:///host:port`. If a host name has several addresses, each of " +
        "them is a core. Names are looked up every 5 s.",
    ),
  token: z
    .string({ error: "must be text" })
    .regex(/^[\x21-\x7e]{16,256}$/, { error: "must be 16 to 256 printable characters without spaces" })
    .nullable()
    .prefault(null)
    .describe(
      "Secret that gateways and cores share. With it a gateway signs the request id, the client's address and the " +
        "dashboard session that it forwards. Null: a core ignores these values, unless it verifies the gateway's " +
        "certificate (`core.tls`).",
    ),
  tls: z
    .strictObject({
      ca_file: file.describe(
        "CA certificates, PEM. A gateway verifies its cores with them, a core its gateways. Null in a gateway: the " +
          "system's.",
      ),
      cert_file: file.describe(
        "Certificate chain, PEM: the server certificate of a core, or the client certificate of a gateway.",
      ),
      key_file: file.describe("Private key of `cert_file`, PEM."),
    })
    .prefault({}),
});

type CoreSettings = z.output<typeof coreSettings>;

type Report = (path: string[], message: string) => void;

/** Checks the settings that a role requires. */
export function checkRole(
  role: "all" | "core" | "gateway",
  { addresses, tls }: CoreSettings,
  redisUrl: string | null,
  report: Report,
): void {
  if ((tls.cert_file === null) !== (tls.key_file === null)) {
    const missing = tls.cert_file === null ? "cert_file" : "key_file";
    report(["core", "tls", missing], "is required: set the certificate and its key together");
  }
  if (role === "core" && (tls.ca_file === null) !== (tls.cert_file === null)) {
    const missing = tls.ca_file === null ? "ca_file" : "cert_file";
    report(["core", "tls", missing], "is required in the role core: set ca_file, cert_file and key_file together");
  }
  if (role !== "gateway") return;
  if (redisUrl === null) {
    report(
      ["state", "redis_url"],
      "is required in the role gateway, which shares keys, usage and webhooks with its cores",
    );
  }
  if (addresses.length === 0) {
    report(["core", "addresses"], "is required in the role gateway: list its cores, such as dns:///cores:50051");
  }
}

function isCoreAddress(value: string): boolean {
  const [, bracketed, plain, port] = /^(?:dns:\/\/\/)?(?:\[([^\]]+)\]|([^[\]/:]+)):(\d{1,5})$/.exec(value) ?? [];
  if (Number(port) < 1 || !(Number(port) <= 65_535)) return false;
  return bracketed === undefined
    ? /^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/.test(plain ?? "")
    : isIP(bracketed) === 6;
}

const workersMax = 64;

/** `server.workers`. */
export const workerSetting = z
  .union([wholeNumber(1, workersMax), z.literal("auto")], {
    error: `must be auto or a whole number between 1 and ${workersMax}`,
  })
  .prefault(1)
  .describe(
    "Number of processes that answer requests on the same ports and share their state through Redis. `auto`: one per " +
      `processor core, at most ${workersMax}.`,
  );

/** The number of processes that `server.workers` stands for on this machine. */
export function workerCount(setting: z.output<typeof workerSetting>): number {
  return setting === "auto" ? Math.min(workersMax, availableParallelism()) : setting;
}

interface SharedByWorkers {
  readonly server: { readonly workers: z.output<typeof workerSetting>; readonly role: "all" | "core" | "gateway" };
  readonly state: { readonly redis_url: string | null; readonly durability: string };
  readonly models: readonly ModelSettings[] | null;
  readonly upstreams: Readonly<Record<string, unknown>>;
}

/** Reports settings that need a single process. `auto` counts as several workers on every machine. */
export function checkWorkers(
  { server, state, models, upstreams }: SharedByWorkers,
  report: (path: string[], message: string) => void,
): void {
  if (server.workers === 1) return;
  const path = ["server", "workers"];
  if (state.redis_url === null && state.durability !== "none") {
    report(path, "needs Redis: several workers cannot share the embedded file; set REDIS_URL, or workers to 1");
  }
  if (server.role === "core") {
    report(path, "a core is one process: set workers to 1, and give several workers to its gateways");
    return;
  }
  // A gateway has no models of its own.
  if (server.role === "gateway") return;
  const embedded = (models ?? []).filter((model) => deploymentsOf(model).some(({ engine }) => engine === "llama"));
  if (embedded.length > 0) {
    const ids = embedded.map(({ id }) => id).join(", ");
    const remedy = "use an upstream server for them, a core with gateways (server.role), or set workers to 1";
    report(path, `several workers cannot share models of the embedded engine (${ids}): ${remedy}`);
  } else if (models === null && Object.keys(upstreams).length === 0) {
    const remedy = "set models or upstreams, use a core with gateways (server.role), or set workers to 1";
    report(path, `several workers cannot share the default models of the embedded engine: ${remedy}`);
  }
}
