import { readFile } from "node:fs/promises";
import { errorText } from "../../lib/display-text.js";
import type { TlsFiles } from "../../lib/network.js";
import { createForwardedReader, type ForwardedReader } from "../../transports/grpc/forwarded.js";
import type { Config } from "../config/schema.js";
import { StartError } from "../process/lifecycle.js";
import type { Context } from "./context.js";

/** Minimum limit of streams per connection of a core: a gateway sends the requests of many clients over one connection. */
const streamsOfGateway = 1_000;

interface GrpcOfRole {
  readonly tls: TlsFiles | null;
  /** Whether the listener uses `server.tls`, whose files are read again when they change. */
  readonly followsFiles: boolean;
  readonly forwarded: ForwardedReader | null;
  readonly streamsMax: number;
}

/** Settings of the gRPC listener that depend on the role: a core may trust gateways by a shared token or their certificates. */
export async function grpcOfRole({ config, tls, limits, clock, log }: Context): Promise<GrpcOfRole> {
  const { grpcStreamsMax } = limits;
  if (config.server.role !== "core") return { tls, followsFiles: true, forwarded: null, streamsMax: grpcStreamsMax };
  const { token } = config.core;
  const { ca = null, cert = null, key = null } = (await readCoreTls(config.core.tls)) ?? {};
  const mutual = cert === null || key === null ? null : { cert, key, clientCa: ca };
  return {
    tls: mutual ?? tls,
    followsFiles: mutual === null,
    forwarded: token === null && mutual === null ? null : createForwardedReader({ token, clock, log }),
    streamsMax: Math.max(streamsOfGateway, grpcStreamsMax),
  };
}

/** Reads the files of `core.tls`; null where it is not set. Rejects with a StartError that names the unusable file. */
export async function readCoreTls({ ca_file: ca, cert_file: cert, key_file: key }: Config["core"]["tls"]) {
  if (ca === null && cert === null) return null;
  const read = async (file: string | null): Promise<Buffer | null> => {
    if (file === null) return null;
    return await readFile(file).catch((cause: unknown) => {
      throw new StartError(`the TLS file ${file} cannot be used: ${errorText(cause)}`, "check core.tls", { cause });
    });
  };
  return { ca: await read(ca), cert: await read(cert), key: await read(key) };
}
