import type { ListenersJson } from "../../../../gen/unified/admin/v1/system_pb.js";
import type { Address } from "./examples.js";

/** Hosts that name no machine of its own: all addresses, or whichever machine one is on. */
const anywhere = /^(0\.0\.0\.0|\[?::\]?|127\..*|localhost|\[?::1\]?)$/;

/** Where gRPC is, for who reached the dashboard at `hostname`. */
export function grpcAddress(
  { host = "", grpcPort = 0, tls = false }: ListenersJson,
  hostname: string,
): Pick<Address, "grpc" | "isTls"> {
  const name = host === "" || anywhere.test(host) ? hostname : host;
  const bracketed = name.includes(":") && !name.startsWith("[") ? `[${name}]` : name;
  return { grpc: `${bracketed}:${grpcPort}`, isTls: tls };
}
