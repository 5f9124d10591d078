import { isIP } from "node:net";
import * as z from "zod";
import { text } from "./setting-types.js";

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
      "Role `gateway`: its cores, as `host:port` or `dns:///host:port`. Each address of a host name is a core; names are " +
        "looked up every 5 s.",
    ),
  token: z
    .string({ error: "must be text" })
    .regex(/^[\x21-\x7e]{16,256}$/, { error: "must be 16 to 256 printable characters without spaces" })
    .nullable()
    .prefault(null)
    .describe(
      "Secret that gateways and cores share. It signs the request id, the client's address and the session that a " +
        "gateway forwards. Null: a core ignores them, unless `core.tls` proves the gateway.",
    ),
  tls: z
    .strictObject({
      ca_file: file.describe(
        "CA certificates, PEM. A gateway verifies its cores with them, a core its gateways. A gateway with null: the system's.",
      ),
      cert_file: file.describe("Certificate chain of this process, PEM: a core's own, or the one a gateway presents."),
      key_file: file.describe("Its private key, PEM."),
    })
    .prefault({}),
});

type CoreSettings = z.output<typeof coreSettings>;

type Report = (path: string[], message: string) => void;

/** What a role needs beyond valid settings. */
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
