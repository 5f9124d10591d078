import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { defaultChatModels } from "../../src/model-store/default-models.js";
import { freePort } from "../support/redis/redis-process.js";
import { copyOfRepository } from "../support/repository-copy.js";

/**
 * A user with only a copy of the repository and its documents, who runs the documented steps unchanged, except that ports
 * are free ones and that key, model and secret are those that the service printed.
 */

const run = promisify(execFile);
const installLimitMs = 600_000;
const fetchLimitMs = 300_000;

interface Place {
  readonly folder: string;
  readonly env: Readonly<Record<string, string>>;
  readonly ports: Readonly<Record<"http" | "grpc" | "receiver", number>>;
}

/** Values in the text printed at start. */
interface Told {
  readonly curl: string;
  readonly key: string;
  readonly model: string;
}

let place: Place;
let service: Running | undefined;
let told: Told;

async function makePlace(): Promise<Place> {
  const ports = { http: await freePort(), grpc: await freePort(), receiver: await freePort() };
  const env: Record<string, string> = {
    PORT: String(ports.http),
    UIS_GRPC_PORT: String(ports.grpc),
    UIS_OPS_PORT: "0",
    UIS_URL: `http://127.0.0.1:${ports.http}`,
    UIS_OFFLINE: "false",
    npm_config_prefer_offline: "true",
  };
  for (const [variable, value = ""] of Object.entries(process.env)) {
    if (/^(PATH|HOME|PIP_.*|HF_ENDPOINT|.*_proxy|SSL_.*)$/i.test(variable)) env[variable] = value;
  }
  return { folder: await copyOfRepository(), env, ports };
}

/** The text of README or of a page that it links to; readers would not find other pages. */
async function pageText(file: string): Promise<string> {
  const text = (page: string) => readFile(join(place.folder, page), "utf8");
  const readme = await text("README.md");
  if (file === "README.md") return readme;
  if (!readme.includes(`](${file})`)) throw new Error(`README.md does not link to ${file}`);
  return text(file);
}

/** The code of a document's first block with this info string, such as `sh buf`. */
async function blockOf(file: string, information: string, after = ""): Promise<string> {
  const [, ...rest] = (await pageText(file)).split(after);
  const [, code] = new RegExp(`^\`\`\`${information}\\n([\\s\\S]*?)^\`\`\`$`, "m").exec(rest.join(after)) ?? [];
  if (code === undefined) throw new Error(`${file} has no block "${information}" after "${after}"`);
  return code;
}

const [{ id: firstChoice } = { id: "" }] = defaultChatModels;

/**
 * Replaces the ports in a documented text by those of this run, and the model by the one that the first start printed: the
 * pages name the first choice, and a machine without access to a model hub, such as in CI, gets another model.
 */
function here(text: string): string {
  return text
    .replaceAll("127.0.0.1:50051", `127.0.0.1:${place.ports.grpc}`)
    .replaceAll("127.0.0.1:8080", `127.0.0.1:${place.ports.http}`)
    .replaceAll("127.0.0.1:4040", `127.0.0.1:${place.ports.receiver}`)
    .replaceAll("--port 4040", `--port ${place.ports.receiver}`)
    .replaceAll(firstChoice, told.model);
}

async function shell(line: string, env: Readonly<Record<string, string>> = {}, timeout = 60_000): Promise<string> {
  const options = { cwd: place.folder, env: { ...place.env, ...env }, timeout, maxBuffer: 64 * 1024 * 1024 };
  return (await run("sh", ["-c", line], options)).stdout;
}

/** A command line that runs until it is stopped. */
interface Running {
  readonly stdout: () => string;
  readonly stderr: () => string;
  stop(): Promise<void>;
}

function start(line: string): Running {
  // A separate process group, so that the signal reaches all its processes, as from a terminal: npx does not forward signals.
  const child = spawn("sh", ["-c", line], {
    cwd: place.folder,
    env: place.env,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const written = { stdout: "", stderr: "" };
  const closed = once(child, "close");
  child.stdout.on("data", (data: Buffer) => {
    written.stdout += data;
  });
  child.stderr.on("data", (data: Buffer) => {
    written.stderr += data;
  });
  return {
    stdout: () => written.stdout,
    stderr: () => written.stderr,
    async stop() {
      if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, "SIGTERM");
      await closed;
    },
  };
}

beforeAll(async () => {
  place = await makePlace();
}, 60_000);
afterAll(async () => {
  await service?.stop();
  await rm(place.folder, { recursive: true });
}, 180_000);

describe("a user who follows the README in an empty folder", () => {
  it("gets a running service with its two commands", { timeout: installLimitMs }, async () => {
    const [install = "", begin = "", ...more] = (await blockOf("README.md", "sh", "## Start\n")).trim().split("\n");
    expect(more).toEqual([]);
    await shell(install, {}, installLimitMs);
    service = start(begin);
    await expect.poll(service.stdout, { timeout: fetchLimitMs, interval: 200 }).toContain("Ctrl-C");
    const text = service.stdout();
    told = {
      curl: text.split("\n").find((line) => line.startsWith("  curl ")) ?? "",
      key: /Key +(\S+)/.exec(text)?.[1] ?? "",
      model: /"model":"([^"]+)"/.exec(text)?.[1] ?? "",
    };
    expect(told.key).toMatch(/^sk-uis-/);
    expect(defaultChatModels.map(({ id }) => id)).toContain(told.model);
  });

  it("gets tokens with the printed line", { timeout: fetchLimitMs }, async () => {
    let events = "";
    // As README says: repeat the request if the download takes more than half a minute.
    do events = await shell(told.curl, {}, fetchLimitMs);
    while (events.includes('"code":"model_loading"'));
    expect(events).toContain('"content":"');
    expect(events).toMatch(/data: \[DONE\]\n\n$/);
  });

  it("gets tokens with OpenAI's library and its snippet", { timeout: fetchLimitMs }, async () => {
    const snippet = here(await blockOf("README.md", "js")).replace("sk-uis-…", told.key);
    await writeFile(join(place.folder, "openai.mjs"), snippet);
    expect(await shell("node openai.mjs", {}, fetchLimitMs)).not.toBe("");
  });

  it("calls the service over gRPC and Connect with the lines of docs/grpc.md", { timeout: fetchLimitMs }, async () => {
    const key = { UIS_API_KEY: told.key };
    const streamed = await shell(here(await blockOf("docs/grpc.md", "sh buf")), key, fetchLimitMs);
    expect(streamed).toContain('"content"');
    expect(streamed).toContain('"totalTokens"');
    const whole = await shell(here(await blockOf("docs/grpc.md", "sh connect")), key, fetchLimitMs);
    expect(JSON.parse(whole).completion.choices[0].message.content).not.toBe("");
  });

  it("calls the service over gRPC with the program of docs/grpc.md", { timeout: fetchLimitMs }, async () => {
    await writeFile(join(place.folder, "client.mjs"), here(await blockOf("docs/grpc.md", "js node")));
    expect(await shell("node client.mjs", { UIS_API_KEY: told.key }, fetchLimitMs)).not.toBe("");
  });

  it("gets a webhook delivery and verifies it with the lines of docs/webhooks.md", {
    timeout: fetchLimitMs,
  }, async () => {
    const block = await blockOf("docs/webhooks.md", "", "To try all of it on one machine");
    // As the README says, `uis` is `npx uis` in the repository.
    const [serve = "", add = "", listen = ""] = here(block)
      .trim()
      .split("\n")
      .map((line) => line.replace("uis ", "npx uis "));
    await service?.stop();
    service = start(serve);
    await expect.poll(service.stdout, { timeout: 60_000 }).toContain("Ctrl-C");
    const secret = /whsec_\S+/.exec(await shell(add))?.[0] ?? "";
    const receiver = start(listen.replace("whsec_…", secret));
    try {
      await expect.poll(receiver.stderr, { timeout: 60_000 }).toContain("Listening");
      await shell(told.curl, {}, fetchLimitMs);
      await expect.poll(receiver.stdout, { timeout: 60_000 }).toMatch(/request\.completed .* valid\n/);
    } finally {
      await receiver.stop();
    }
  });
});
