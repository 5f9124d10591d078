import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { configSchema } from "../../../../src/app/config/schema.js";
import { certificateCheck } from "../../../../src/app/doctor/settings.js";
import { makeAuthority } from "../../../support/receivers/authority.js";

const dayMs = 86_400_000;

describe("the check of the certificate", () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "uis-certificate-"));
    const authority = makeAuthority();
    const { cert, key } = authority.issue(["localhost"], 60);
    authority.close();
    writeFileSync(join(folder, "cert.pem"), cert);
    writeFileSync(join(folder, "key.pem"), key);
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  /** Findings for a certificate valid for sixty days, the given number of days from now. */
  const inDays = (days: number) => {
    const tls = { cert_file: join(folder, "cert.pem"), key_file: join(folder, "key.pem") };
    return certificateCheck(configSchema.parse({ server: { tls } }), Date.now() + days * dayMs);
  };

  it.each([
    [-1, "fail", "set the clock"],
    [1, "ok", null],
    [45, "warn", "renew it soon"],
    [61, "fail", "renew it"],
  ])("%d days after it was issued has the status %s", async (days, status, fix) => {
    expect(await inDays(days)).toMatchObject({
      check: "tls",
      status,
      fix: fix === null ? null : expect.stringContaining(fix),
    });
  });

  it("is ok without TLS, because the check `bind` warns about that if necessary", async () => {
    expect(await certificateCheck(configSchema.parse({}), Date.now())).toMatchObject({ status: "ok", detail: "off" });
  });
});
