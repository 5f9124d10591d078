import { execFileSync } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import type { IncomingHttpHeaders } from "node:http";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RunningService, startService } from "../../support/start-service.js";

describe("security headers under TLS", () => {
  let folder: string;
  let service: RunningService;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "uis-hsts-"));
    const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", join(folder, "key")];
    const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"];
    execFileSync("openssl", ["req", "-x509", ...key, ...subject, "-days", "2", "-out", join(folder, "cert")], {
      stdio: "ignore",
    });
    const tls = { cert_file: join(folder, "cert"), key_file: join(folder, "key") };
    service = await startService({ config: { server: { tls } } });
  });
  afterAll(async () => {
    await service.close();
    await rm(folder, { recursive: true });
  });

  async function headersOf(path: string, headers: Record<string, string> = {}): Promise<IncomingHttpHeaders> {
    const ca = await readFile(join(folder, "cert"));
    return new Promise((resolve, reject) => {
      request(service.http + path, { ca, headers }, (res) => resolve(res.resume().headers))
        .once("error", reject)
        .end();
    });
  }

  it("answers and errors announce strict transport security, forbid sniffing and set no cookie (HDR-6)", async () => {
    const answers = [
      await headersOf("/v1/models", { authorization: `Bearer ${service.key}` }),
      await headersOf("/v1/models"),
      await headersOf("/v1/nothing"),
      await headersOf("/health"),
    ];
    for (const headers of answers) {
      expect(headers["strict-transport-security"]).toMatch(/^max-age=\d+$/);
      expect(headers["x-content-type-options"]).toBe("nosniff");
      expect(headers["set-cookie"]).toBeUndefined();
    }
  });
});
