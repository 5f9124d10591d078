import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { uis } from "../../support/cli-run.js";
import { eventually } from "../../support/eventually.js";
import { writeScriptedGguf } from "../../support/gguf/scripted-gguf.js";
import { HubServer } from "../../support/hub-server.js";
import { uisProgram } from "../../support/program.js";
import { startService } from "../../support/start-service.js";

let folder: string;
let chatSum: string;
let hub: HubServer;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-pulls-"));
  const chatFile = join(folder, "chat.gguf");
  await writeScriptedGguf(chatFile, { text: "It works." });
  const bytes = await readFile(chatFile);
  chatSum = createHash("sha256").update(bytes).digest("hex");
  hub = await HubServer.start();
  hub.put("owner/repo", "Some-Model.gguf", bytes);
  hub.put("owner/Many-GGUF", "Many-Q4_K_M.gguf", bytes);
  hub.put("owner/Many-GGUF", "Many-Q8_0.gguf", Buffer.from("another file"));
  hub.put("owner/Many-GGUF", "big/Many-F16-00001-of-00002.gguf", Buffer.from("a part"));
  hub.put("owner/Many-GGUF", "mmproj-Many-Q4_K_M.gguf", Buffer.from("a projector"));
});

afterAll(async () => {
  await hub.close();
  await rm(folder, { recursive: true });
});

type Model = Record<string, unknown>;

/** URL of the model file. The next line has its source on the hub. */
const address = () => `${hub.endpoint}/owner/repo/resolve/main/Some-Model.gguf`;
const hubSource = "hf:owner/repo/Some-Model.gguf@main";

/** Runs a command in a separate process, which signals and terminals need. */
function spawnCli(args: readonly string[], env: Record<string, string>, cwd: string) {
  const child = spawn(process.execPath, [...uisProgram, ...args], { cwd, env, stdio: ["ignore", "ignore", "pipe"] });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  return { child, stderr: () => stderr, exited: once(child, "close").then(([code]: (number | null)[]) => code) };
}

describe("models of the hub", () => {
  const models = (args: readonly string[], env: Record<string, string> = {}) =>
    uis(["models", ...args], { env: { UIS_DATA_DIR: "data", ...env }, cwd: folder });

  it("pulls a quantization of a repository at the commit of the hub's list, verified by the sum that the hub states", async () => {
    const env = { HF_ENDPOINT: hub.endpoint };
    const pulled = await models(["pull", "hf:owner/Many-GGUF:q4_k_m", "--json"], env);
    expect(JSON.parse(pulled.stdout)).toMatchObject({
      id: "many-q4_k_m",
      sha256: chatSum,
      source: "hf:owner/Many-GGUF:Q4_K_M@main",
    });
    await models(["rm", "many-q4_k_m"]);
    const other = await models(["pull", "hf:owner/Many-GGUF:Q5_K_M"], env);
    expect(other).toMatchObject({ code: 1, stdout: "" });
    expect(other.stderr).toContain("owner/Many-GGUF has no Q5_K_M: it has Q4_K_M, Q8_0");
    const parts = await models(["pull", "hf:owner/Many-GGUF:F16"], env);
    expect(parts.stderr).toContain("has F16 in several files, and only a model in one file can be used");
    hub.play("none", "wrong bytes");
    const wrong = await models(["pull", "hf:owner/Many-GGUF:Q8_0"], env);
    expect(wrong.stderr).toContain("is not the expected file");
  });

  it("searches short names and the hub, and prints a remedy if the hub cannot be reached", async () => {
    const env = { HF_ENDPOINT: hub.endpoint };
    const found = JSON.parse((await models(["search", "owner", "many", "--json"], env)).stdout) as Model[];
    expect(found).toEqual([
      {
        source: "hf:owner/Many-GGUF:Q4_K_M",
        kind: null,
        quantizations: ["Q4_K_M", "Q8_0"],
        approximate_bytes: null,
        downloads: 1234,
        likes: 5,
        license: "mit",
        gated: false,
      },
    ]);
    const short = await models(["search", "qwen3", "4b"], env);
    expect(short.stdout).toMatch(/^SOURCE +SIZE +DOWNLOADS +LICENSE\nqwen3:4b +2\.5 GB +apache-2\.0\n/);
    expect((await models(["search", "nothing-like-it"], env)).stderr).toContain("no model matches");
    const unreached = await models(["search", "qwen3"], { HF_ENDPOINT: "http://127.0.0.1:1" });
    expect(unreached).toMatchObject({ code: 1, stdout: "" });
    expect(unreached.stderr).toContain("127.0.0.1:1 cannot be reached");
    const offline = await models(["search", "qwen3"], { UIS_OFFLINE: "1" });
    expect(offline.stderr).toContain("is offline (UIS_OFFLINE)");
  });
});

describe("uis models pull, interrupted", () => {
  const uisOf = (env: Record<string, string>, ...args: string[]) => uis(["models", ...args], { env, cwd: folder });

  /** Interrupts a running pull; returns the command's output on stderr. */
  async function interrupted(env: Record<string, string>): Promise<string> {
    hub.play({ stallAfterBytes: 500_000 });
    const command = spawnCli(["models", "pull", address()], env, folder);
    await eventually(() => /fetching: +[2-9]\d %/.test(command.stderr()), "a fifth of the file");
    command.child.kill("SIGINT");
    expect(await command.exited).toBe(1);
    return command.stderr();
  }

  const hasPart = async (dataDir: string) =>
    (await readdir(join(dataDir, "models"))).some((name) => name.endsWith(".part"));
  const resumed = () => expect(hub.requests.at(-1)?.range).toMatch(/^bytes=[1-9]\d+-$/);

  it("prints that the same command resumes the download, and the same command does so", async () => {
    const env = { UIS_DATA_DIR: join(folder, "interrupted") };
    const stderr = await interrupted(env);
    expect(stderr).toContain("cancelled: the received part is kept; the same command resumes there");
    await eventually(() => hasPart(env.UIS_DATA_DIR), "the part that is left");
    const again = await uisOf(env, "pull", address(), "--json");
    expect(JSON.parse(again.stdout)).toMatchObject({ id: "some-model", sha256: chatSum });
    resumed();
  });

  it("does not end a pull that runs in the service: pulls lists it, cancel ends it, a restart resumes it", async () => {
    const config = { engine: { threads: 1 }, data_dir: join(folder, "restarted") };
    const first = await startService({ config });
    const env = { UIS_URL: first.http, UIS_DATA_DIR: first.dataDir };
    const pulls = async (of = env) => JSON.parse((await uisOf(of, "pulls", "--json")).stdout) as Model[];
    expect(await interrupted(env)).toContain("the service continues the pull");
    expect(await pulls()).toMatchObject([{ id: "some-model", state: "downloading", source: address(), problem: null }]);
    const other = await uisOf(env, "pull", hubSource);
    expect(other).toMatchObject({ code: 1 });
    expect(other.stderr).toContain("is being pulled from another source");

    expect(await uisOf(env, "cancel", "some-model")).toMatchObject({ code: 0 });
    expect(await pulls()).toMatchObject([{ id: "some-model", state: "cancelled" }]);
    expect((await uisOf(env, "cancel", "some-model")).stderr).toContain("No pull of the model 'some-model' is running");
    expect(await hasPart(first.dataDir)).toBe(true);

    await interrupted(env);
    await first.close();
    const second = await startService({ config });
    try {
      const again = { UIS_URL: second.http, UIS_DATA_DIR: second.dataDir };
      const isDone = async () => (await pulls(again))[0]?.["state"] === "succeeded";
      await eventually(isDone, "the end of the resumed pull");
      resumed();
      expect(await uis(["run", "some-model", "Hi"], { env: again })).toMatchObject({ stdout: "It works.\n" });
    } finally {
      await second.close();
    }
  });
});
