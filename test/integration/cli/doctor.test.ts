import { mkdtemp, rm, writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Check } from "../../../src/app/doctor/check.js";
import { uis } from "../../support/cli-run.js";

let cwd: string;
const freePorts = { PORT: "0", UIS_GRPC_PORT: "0", UIS_OPS_PORT: "0" };

beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), "uis-doctor-"));
});

afterEach(async () => {
  await rm(cwd, { recursive: true });
});

async function doctor(env: Record<string, string> = {}): Promise<{ code: number; checks: readonly Check[] }> {
  const { code, stdout } = await uis(["doctor", "--json"], { cwd, env: { ...freePorts, ...env } });
  return { code, checks: JSON.parse(stdout) as Check[] };
}

const statusOf = (checks: readonly Check[], name: string) => checks.find(({ check }) => check === name)?.status;

describe("uis doctor", () => {
  it("exits 0 where a service could start, and every finding has its four fields", async () => {
    const { code, checks } = await doctor();
    expect(code).toBe(0);
    for (const check of checks) {
      expect(Object.keys(check)).toEqual(["check", "status", "detail", "fix"]);
      expect(check.fix === null).toBe(check.status === "ok");
    }
    expect(statusOf(checks, "sqlite")).toBe("ok");
    expect(statusOf(checks, "data_dir")).toBe("ok");
  });

  it("exits 1 and says why when the configuration is wrong", async () => {
    await writeFile(join(cwd, "uis.yaml"), "server: { prt: 1 }\n");
    const { code, checks } = await doctor();
    expect(code).toBe(1);
    expect(checks.find(({ check }) => check === "config")).toMatchObject({ status: "fail" });
  });

  it("finds a port that is taken", async () => {
    const other = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => other.once("listening", resolve));
    const { port } = other.address() as AddressInfo;
    const { code, checks } = await doctor({ PORT: String(port) });
    other.close();
    expect(code).toBe(1);
    expect(statusOf(checks, "port_http")).toBe("fail");
  });

  it("warns of listeners that others can reach without TLS, and fails for TLS files that are not there", async () => {
    const { checks } = await doctor({ HOST: "0.0.0.0" });
    expect(statusOf(checks, "settings")).toBe("warn");
    const broken = await doctor({ UIS_SERVER_TLS_CERT_FILE: "gone.pem", UIS_SERVER_TLS_KEY_FILE: "gone.pem" });
    expect(statusOf(broken.checks, "tls")).toBe("fail");
  });

  it("looks at a Redis server when one is named", async () => {
    const { code, checks } = await doctor({ REDIS_URL: "redis://127.0.0.1:1" });
    expect(code).toBe(1);
    expect(statusOf(checks, "redis")).toBe("fail");
  });
});
