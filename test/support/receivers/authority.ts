import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** PEM strings for Node's TLS options. */
export interface ServerIdentity {
  readonly cert: string;
  readonly key: string;
}

/** A certificate authority for tests, created with openssl. */
export interface Authority {
  /** PEM of the authority's certificate. */
  readonly ca: string;
  /** Path of the same certificate, for NODE_EXTRA_CA_CERTS. */
  readonly caFile: string;
  /** Issues a certificate for these names and addresses. A negative number of days gives an expired one. */
  issue(hosts: readonly string[], days?: number): ServerIdentity;
  /** Removes the files. */
  close(): void;
}

export function makeAuthority(): Authority {
  const folder = mkdtempSync(join(tmpdir(), "uis-authority-"));
  const at = (name: string) => join(folder, name);
  const openssl = (...args: string[]) => execFileSync("openssl", args, { stdio: "ignore" });
  const newKey = (name: string) =>
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", at(`${name}.key`));
  newKey("ca");
  const subject = ["-subj", "/CN=Test authority", "-days", "30"];
  openssl("req", "-x509", "-new", "-key", at("ca.key"), ...subject, "-out", at("ca.crt"));
  newKey("server");
  openssl("req", "-new", "-key", at("server.key"), "-subj", "/CN=receiver", "-out", at("server.csr"));
  return {
    ca: readFileSync(at("ca.crt"), "utf8"),
    caFile: at("ca.crt"),
    issue(hosts, days = 30) {
      const names = hosts.map((host) => `${/^[\d.]+$|:/.test(host) ? "IP" : "DNS"}:${host}`);
      writeFileSync(at("names"), `subjectAltName=${names.join(",")}\n`);
      const signer = ["-CA", at("ca.crt"), "-CAkey", at("ca.key"), "-CAcreateserial", "-extfile", at("names")];
      openssl("x509", "-req", "-in", at("server.csr"), ...signer, "-days", String(days), "-out", at("server.crt"));
      return { cert: readFileSync(at("server.crt"), "utf8"), key: readFileSync(at("server.key"), "utf8") };
    },
    close: () => rmSync(folder, { recursive: true, force: true }),
  };
}
