import { isIP } from "node:net";

/** Whether a host is the loopback interface: an address, with or without brackets, or a name. */
export function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[(.*)\]$/, "$1");
  if (isIP(bare) === 4) return bare.startsWith("127.");
  return bare === "::1" || bare === "localhost";
}

/** Contents of the TLS files of a listener, PEM. */
export interface TlsFiles {
  readonly cert: Buffer;
  readonly key: Buffer;
  /** When set, clients must present a certificate that one of these issued. */
  readonly clientCa: Buffer | null;
}
