import { createSecureContext, type SecureContextOptions } from "node:tls";
import { ServerCredentials } from "@grpc/grpc-js";
import type { TlsFiles } from "../../lib/tls-files.js";

/** How long a client may take for its handshake. */
const handshakeTimeoutMs = 10_000;

/** TLS 1.2 or newer from files that can be exchanged while connections live. */
export class TlsCredentials extends ServerCredentials {
  readonly #asksForCertificate: boolean;

  constructor(files: TlsFiles) {
    const asksForCertificate = files.clientCa !== null;
    super(
      { requestCert: asksForCertificate, rejectUnauthorized: asksForCertificate, handshakeTimeout: handshakeTimeoutMs },
      contextOptions(files),
    );
    this.#asksForCertificate = asksForCertificate;
  }

  /**
   * New connections use the new files. Throws, and changes nothing, when they do not fit together, or when client
   * certificates are switched on or off: that needs a restart.
   */
  reload(files: TlsFiles): void {
    if ((files.clientCa !== null) !== this.#asksForCertificate) {
      throw new Error("client certificates cannot be switched on or off while the gRPC listener runs");
    }
    const options = contextOptions(files);
    // grpc-js would only log an unusable context and refuse all connections from then on.
    createSecureContext(options);
    this.updateSecureContextOptions(options);
  }

  override _equals(other: ServerCredentials): boolean {
    return this === other;
  }
}

function contextOptions({ cert, key, clientCa }: TlsFiles): SecureContextOptions {
  return { cert, key, minVersion: "TLSv1.2", ...(clientCa === null ? {} : { ca: clientCa }) };
}
