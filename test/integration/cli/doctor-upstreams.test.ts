import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { configSchema } from "../../../src/app/config/schema.js";
import type { Check } from "../../../src/app/doctor/check.js";
import { storedUpstreamChecks } from "../../../src/app/doctor/upstreams.js";
import { uis } from "../../support/cli-run.js";
import { startService } from "../../support/start-service.js";
import type { RawUpstream } from "../../support/upstream/raw-upstream.js";
import { modelList, startServerWith } from "../../support/upstream/server-paths.js";

let cwd: string;
let server: RawUpstream;

beforeEach(async () => {
  cwd = await mkdtemp(join(tmpdir(), "uis-doctor-upstreams-"));
  server = await startServerWith({ "/v1/models": modelList({ id: "present" }) });
});
afterEach(async () => {
  await server.close();
  await rm(cwd, { recursive: true });
});

async function doctor(yaml: string): Promise<{ code: number; checks: readonly Check[] }> {
  await writeFile(join(cwd, "uis.yaml"), yaml);
  const env = { PATH: process.env["PATH"] ?? "", PORT: "0", UIS_GRPC_PORT: "0", UIS_OPS_PORT: "0", UIS_OFFLINE: "1" };
  const { code, stdout } = await uis(["doctor", "--json"], { cwd, env });
  return { code, checks: JSON.parse(stdout) as Check[] };
}

describe("uis doctor with upstreams", () => {
  it("warns of each upstream that does not list its models, or lacks a configured model", async () => {
    const { code, checks } = await doctor(`
upstreams:
  good: { url: "${server.url}", kind: vllm }
  lacking: { url: "${server.url}", kind: vllm }
  down: { url: "http://127.0.0.1:1/v1" }
models:
  - { id: a, engine: openai, upstream: good, model: present }
  - { id: gone, engine: openai, upstream: lacking }
`);
    expect(checks.filter(({ check }) => check === "upstream")).toEqual([
      {
        check: "upstream",
        status: "ok",
        detail: expect.stringMatching(/^good: http:\S+ lists 1 model, in /),
        fix: null,
      },
      {
        check: "upstream",
        status: "warn",
        detail: `lacking: ${server.url} does not list gone`,
        fix: `load the model there, or correct its name; uis upstreams check ${server.url}`,
      },
      {
        check: "upstream",
        status: "warn",
        detail: expect.stringMatching(/^down: http:\S+ cannot be reached \(.*ECONNREFUSED/),
        fix: "start the server, or correct the address",
      },
    ]);
    // The service starts although these upstreams fail.
    expect(code).toBe(0);
  });

  it("checks stored upstreams and fallbacks, both of a running and of a stopped service", async () => {
    const dataDir = join(cwd, "data");
    const state = { durability: "every-write" };
    const service = await startService({ config: { data_dir: dataDir, models: [], state } });
    const env = { UIS_URL: service.http, UIS_DATA_DIR: dataDir };
    const add = (name: string, url: string) =>
      uis(["upstreams", "add", name, "--url", url, "--kind", "vllm", "--key-file", "-"], {
        env,
        stdin: "key-0123456789",
      });
    const models = "models: [{ id: m, engine: scripted, fallbacks: [present, absent] }]";
    const found = async () =>
      (await doctor(`data_dir: "${dataDir}"\n${models}`)).checks
        .filter(({ check }) => check === "upstream" || check === "fallbacks")
        .map(({ status, detail }) => `${status} ${detail.replace(/, in \d+ ms$/, "")}`);
    const down = "http://127.0.0.1:1/v1";
    const expected = [
      `ok good: ${server.url} lists 1 model`,
      expect.stringMatching(/^warn lost: http:\S+ cannot be reached \(.*ECONNREFUSED/),
    ];
    try {
      expect(await Promise.all([add("good", server.url), add("lost", down)])).toMatchObject([{ code: 0 }, { code: 0 }]);
      const missing = 'warn the model "absent", a fallback of m, does not exist';
      expect(await found()).toEqual([...expected, missing]);
    } finally {
      await service.close();
    }
    const unknown = (id: string) => expect.stringContaining(`"${id}", a fallback of m, is not in models`);
    expect(await found()).toEqual([...expected, unknown("present"), unknown("absent")]);
    expect(server.requests.at(-1)?.headers["authorization"]).toBe("Bearer key-0123456789");
    // An upstream of the configuration hides the stored one with the same name.
    const config = configSchema.parse({ data_dir: dataDir, upstreams: { good: { url: down } } });
    const details = async () => (await storedUpstreamChecks(config, null)).map(({ detail }) => detail);
    expect(await details()).toEqual([expect.stringMatching(/^lost: .* cannot be reached/)]);
    await rm(join(dataDir, "master.key"));
    expect(await details()).toEqual([
      expect.stringMatching(/^lost: its key or headers cannot be decrypted: .*master\.key is missing/),
    ]);
  });

  it("fails for a key file that cannot be read, with the line in the configuration", async () => {
    const { code, checks } = await doctor(`upstreams:\n  gpu: { url: "${server.url}", key_file: gone.key }\n`);
    expect(code).toBe(1);
    expect(checks.find(({ check }) => check === "config")).toMatchObject({
      status: "fail",
      detail: expect.stringMatching(/uis\.yaml:2:\d+: upstreams\.gpu\.key_file.* cannot be read: .*gone\.key/),
    });
  });
});
