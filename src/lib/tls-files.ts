/** Contents of the TLS files of a listener, PEM. */
export interface TlsFiles {
  readonly cert: Buffer;
  readonly key: Buffer;
  /** When set, clients must present a certificate that one of these issued. */
  readonly clientCa: Buffer | null;
}
