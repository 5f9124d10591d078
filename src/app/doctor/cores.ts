import { once } from "node:events";
import { connect } from "node:net";
import { errorText } from "../../lib/display-text.js";
import type { Config } from "../config/schema.js";
import { type Check, fail, ok, warn } from "./check.js";

const connectTimeoutMs = 2_000;

/** Whether each address of `core.addresses` accepts connections; none in another role than `gateway`. */
export async function coreChecks({ server, core }: Pick<Config, "server" | "core">): Promise<readonly Check[]> {
  if (server.role !== "gateway") return [];
  return await Promise.all(core.addresses.map(checkAddress));
}

async function checkAddress(address: string): Promise<Check> {
  const bare = address.replace(/^dns:\/\/\//, "");
  const colon = bare.lastIndexOf(":");
  const host = bare.slice(0, colon).replace(/^\[(.*)\]$/, "$1");
  const socket = connect({ host, port: Number(bare.slice(colon + 1)) });
  try {
    await once(socket, "connect", { signal: AbortSignal.timeout(connectTimeoutMs) });
    return ok("cores", `${address} accepts connections`);
  } catch (error) {
    const isLate = error instanceof Error && error.name === "AbortError";
    const why = isLate ? `no connection within ${connectTimeoutMs / 1_000} s` : errorText(error);
    const fix = "start the core, and check core.addresses and the server.host of the core";
    return fail("cores", `${address} cannot be reached: ${why}`, fix);
  } finally {
    socket.destroy();
  }
}

/** Whether gateways and cores trust each other; no check in the role `all`. */
export function coreTrustChecks({
  server: { role },
  core: { token, tls },
}: Pick<Config, "server" | "core">): readonly Check[] {
  if (role === "all") return [];
  if (token !== null) return [ok("core_trust", "forwarded fields are signed with core.token")];
  if (tls.cert_file !== null) return [ok("core_trust", "gateways and cores present certificates to each other")];
  const detail =
    role === "core"
      ? "core.token is not set: request ids, addresses and sessions that gateways forward are ignored"
      : "core.token is not set: cores see this gateway as the client, and refuse dashboard sessions";
  return [warn("core_trust", detail, "set the same core.token on gateways and cores, or core.tls")];
}
