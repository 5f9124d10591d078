import { execFileSync } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "node:tls";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type RunningService, startService } from "../../support/start-service.js";

let folder: string;
let service: RunningService | null = null;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-tls-"));
});

afterEach(async () => {
  await service?.close();
  service = null;
  await rm(folder, { recursive: true });
});

const at = (name: string) => join(folder, name);

/** Writes a self-signed certificate for 127.0.0.1 and its key. */
function makeCertificate(commonName: string, name = "server"): void {
  const subject = ["-subj", `/CN=${commonName}`, "-addext", "subjectAltName=IP:127.0.0.1"];
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", at(`${name}.key`)];
  execFileSync("openssl", ["req", "-x509", ...key, ...subject, "-days", "2", "-out", at(`${name}.crt`)], {
    stdio: "ignore",
  });
}

const tls = () => ({ cert_file: at("server.crt"), key_file: at("server.key") });
const portOf = (address: string) => Number(address.split(":").at(-1));

/** Common name of the certificate that a listener shows, and the TLS version. */
function shownBy(port: number): Promise<{ name: unknown; protocol: string | null }> {
  return new Promise((resolve, reject) => {
    const socket = connect(
      { port, host: "127.0.0.1", rejectUnauthorized: false, ALPNProtocols: ["h2", "http/1.1"] },
      () => {
        resolve({ name: socket.getPeerCertificate().subject.CN, protocol: socket.getProtocol() });
        socket.destroy();
      },
    );
    socket.on("error", reject);
  });
}

async function statusOf(url: string, options: object = {}): Promise<number | undefined> {
  const ca = await readFile(at("server.crt"));
  return new Promise((resolve, reject) => {
    request(url, { ca, ...options }, (res) => resolve(res.resume().statusCode))
      .on("error", reject)
      .end();
  });
}

describe("TLS", () => {
  it("is used by both listeners with the configured files, in no version below 1.2 (SEC-29)", async () => {
    makeCertificate("one");
    service = await startService({ config: { server: { tls: tls() } } });
    expect(service.api).toMatch(/^https:/);
    expect(await statusOf(`${service.http}/health`)).toBe(200);
    for (const port of [portOf(service.http), portOf(service.grpc)]) {
      expect(await shownBy(port)).toEqual({ name: "one", protocol: "TLSv1.3" });
      const old = {
        port,
        host: "127.0.0.1",
        rejectUnauthorized: false,
        minVersion: "TLSv1",
        maxVersion: "TLSv1.1",
      } as const;
      const refused = await new Promise((resolve) => connect(old, () => resolve(null)).on("error", resolve));
      expect(refused).toBeInstanceOf(Error);
    }
  });

  it("uses changed files for new connections, and an invalid file changes nothing (SEC-29)", async () => {
    makeCertificate("one");
    service = await startService({ config: { server: { tls: tls() } } });
    const ports = [portOf(service.http), portOf(service.grpc)];
    const names = async () => (await Promise.all(ports.map(shownBy))).map(({ name }) => name);
    const reloads = () => service?.logs.filter(({ msg }) => msg === "TLS files reloaded").length;
    await service.service.reload.apply(service.service.config, []);
    expect(reloads()).toBe(0);
    makeCertificate("two");
    await service.service.reload.apply(service.service.config, []);
    expect(reloads()).toBe(1);
    await expect.poll(names, { timeout: 30_000, interval: 200 }).toEqual(["two", "two"]);

    execFileSync("openssl", ["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", at("server.key")]);
    await expect
      .poll(() => JSON.stringify(service?.logs), { timeout: 30_000, interval: 200 })
      .toContain("reloading the TLS files failed");
    expect(await names()).toEqual(["two", "two"]);
  });

  it("rejects clients without a certificate of the configured authority if one is required (SEC-29)", async () => {
    makeCertificate("one");
    makeCertificate("client", "client");
    service = await startService({ config: { server: { tls: { ...tls(), client_ca_file: at("client.crt") } } } });
    await expect(statusOf(`${service.http}/health`)).rejects.toThrow();
    const client = { cert: await readFile(at("client.crt")), key: await readFile(at("client.key")) };
    expect(await statusOf(`${service.http}/health`, client)).toBe(200);
  });

  it("fails at start if the key belongs to another certificate, and the error names the file", async () => {
    makeCertificate("one");
    makeCertificate("other", "other");
    const wrong = { cert_file: at("server.crt"), key_file: at("other.key") };
    await expect(startService({ config: { server: { tls: wrong } } })).rejects.toThrow("other.key is not the key of");
  });
});
