import { createPrivateKey, X509Certificate } from "node:crypto";
import { unwatchFile, watchFile } from "node:fs";
import { readFile } from "node:fs/promises";
import type { TlsFiles } from "../lib/tls-files.js";
import type { Config } from "./config/schema.js";
import { StartError } from "./start-error.js";

export type TlsSettings = Config["server"]["tls"];

/** How often the files' dates are looked at: a renewed certificate is served within this time. */
const lookEveryMs = 2_000;

/** Reads and checks the TLS files; null when TLS is off. Rejects with StartError that names the file at fault. */
export async function loadTls(settings: TlsSettings): Promise<TlsFiles | null> {
  const { cert_file: certFile, key_file: keyFile, client_ca_file: caFile } = settings;
  if (certFile === null || keyFile === null) return null;
  const cert = await readPem(certFile, (pem) => new X509Certificate(pem));
  const key = await readPem(keyFile, (pem) => createPrivateKey(pem));
  const clientCa = caFile === null ? null : await readPem(caFile, (pem) => new X509Certificate(pem));
  if (!cert.parsed.checkPrivateKey(key.parsed)) {
    throw new StartError(`${keyFile} is not the key of ${certFile}`, "set server.tls.cert_file and key_file to a pair");
  }
  return { cert: cert.pem, key: key.pem, clientCa: clientCa?.pem ?? null };
}

async function readPem<T>(file: string, parse: (pem: Buffer) => T): Promise<{ pem: Buffer; parsed: T }> {
  try {
    const pem = await readFile(file);
    return { pem, parsed: parse(pem) };
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new StartError(`the TLS file ${file} cannot be used: ${reason}`, "check server.tls", { cause });
  }
}

/** Calls `changed` when one of the files got another date or size, until the returned function is called. */
export function watchTlsFiles(settings: TlsSettings, changed: () => void): () => void {
  const files = [settings.cert_file, settings.key_file, settings.client_ca_file].filter((file) => file !== null);
  const listener = (now: { mtimeMs: number; size: number }, before: { mtimeMs: number; size: number }) => {
    if (now.mtimeMs !== before.mtimeMs || now.size !== before.size) changed();
  };
  for (const file of files) watchFile(file, { interval: lookEveryMs, persistent: false }, listener);
  return () => {
    for (const file of files) unwatchFile(file, listener);
  };
}
