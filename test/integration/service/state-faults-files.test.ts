import { execFileSync } from "node:child_process";
import { appendFile, rename } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { needsInstalled } from "../../support/missing-program.js";
import { ServiceClient } from "../../support/service-client.js";
import { ServiceFolder } from "../../support/service-process.js";
import { usageOverRest } from "./usage-sums.js";

let served: ServiceFolder;
beforeEach(async () => {
  served = await ServiceFolder.create();
});
afterEach(() => served.remove());

const env = { LOG_LEVEL: "warn" };
const models = [{ id: "m", engine: "scripted", scripted: { text: "three words here" } }];

describe("a service at its limit of open files", () => {
  it("serves again after some files are closed, without a crash (REL-18)", async () => {
    needsInstalled("prlimit");
    const { child, line } = await served.start({ models }, { env });
    // The limit is set only after the start, during which the service has hundreds of files open.
    execFileSync("prlimit", ["--pid", String(child.pid), "--nofile=256"]);
    const { port } = new URL(line.api);
    const sockets: Socket[] = Array.from({ length: 400 }, () =>
      connect(Number(port), "127.0.0.1").on("error", () => {}),
    );
    await eventually(() => sockets.every(({ connecting }) => !connecting), "all clients have tried");
    for (const socket of sockets) socket.destroy();
    const client = new ServiceClient(line.api, line.api_key?.secret ?? "");
    await eventually(async () => (await client.chat("m").catch(() => null))?.status === 200, "an answer");
    expect(child.exitCode).toBeNull();
  });
});

describe("a low limit of open files", () => {
  const limited = (files: number) => ({
    env,
    under: (command: readonly string[]) => ["prlimit", `--nofile=${files}`, ...command],
  });

  it("makes the start fail if it is below the minimum, with exit code 2, cause and fix (E-26)", async () => {
    needsInstalled("prlimit");
    expect(await served.refused({ models }, limited(256))).toEqual({
      code: 2,
      line: "uis: the service may have at most 256 open files, and needs 320; raise it: ulimit -n 65536, or LimitNOFILE= with systemd",
    });
  });

  it("limits connections: further requests get 503, health checks are answered, and one line is logged (E-26)", async () => {
    needsInstalled("prlimit");
    const { child, line, logs } = await served.start({ models }, limited(400));
    const { port } = new URL(line.api);
    const held = Array.from({ length: (400 - 192) / 2 }, () =>
      connect(Number(port), "127.0.0.1").on("error", () => {}),
    );
    await eventually(() => held.every(({ connecting }) => !connecting), "all connections are open");
    const ask = (path: string) => fetch(new URL(path, line.api), { headers: { connection: "close" } });
    await eventually(async () => (await ask("/v1/models")).status === 503, "the limit is reached");
    const refused = await ask("/v1/models");
    expect([refused.headers.get("retry-after"), refused.headers.get("connection")]).toEqual(["1", "close"]);
    expect(await refused.json()).toMatchObject({ error: { code: "server_is_overloaded" } });
    expect((await ask("/health")).status).toBe(200);
    const flood = Array.from({ length: 900 }, () => connect(Number(port), "127.0.0.1").on("error", () => {}));
    await eventually(() => flood.every(({ connecting }) => !connecting), "all further clients have tried");
    for (const socket of [...held, ...flood]) socket.destroy();
    const client = new ServiceClient(line.api, line.api_key?.secret ?? "");
    await eventually(async () => (await client.chat("m").catch(() => null))?.status === 200, "an answer");
    const logged = () => logs().filter(({ msg }) => msg.startsWith("the limit of connections is reached"));
    await eventually(() => logged().length > 0, "the log message");
    expect(logged()).toHaveLength(1);
    expect(child.exitCode).toBeNull();
  });
});

describe("a data folder that is moved while the service runs", () => {
  it("makes the service not ready until the folder is moved back, and requests answered until then are counted (E-23)", async () => {
    const service = await served.start({ models }, { env });
    const { line, stderr } = service;
    const client = new ServiceClient(line.api, service.key);
    const ready = async (base: string): Promise<[number, string]> => {
      const answer = await fetch(new URL("/ready", base));
      return [answer.status, await answer.text()];
    };
    expect((await client.chat("m")).status).toBe(200);
    expect((await ready(line.api))[0]).toBe(200);
    const away = `${served.dataDir}-away`;
    await rename(served.dataDir, away);
    await eventually(async () => (await ready(line.api))[0] === 503, "it is not ready");
    expect((await ready(line.api))[1]).toContain("storage_unavailable");
    expect(await ready(line.ops)).toEqual([503, expect.stringContaining("uis.db was deleted or moved")]);
    await eventually(() => /refuses writes, because uis\.db was deleted or moved/.test(stderr()), "the log message");
    expect((await client.chat("m")).status).toBe(200);
    await rename(away, served.dataDir);
    await eventually(async () => (await ready(line.api))[0] === 200, "it is ready again");
    const counted = async () => (await usageOverRest(service, service.key))["m"]?.requests;
    await eventually(async () => (await counted()) === 2, "both requests are counted");
  });
});

describe("a journal of running requests damaged by a full disk", () => {
  it("never prevents a start: damaged lines are skipped, counted and logged (E-20)", async () => {
    const first = await served.start({ models }, { env });
    expect((await new ServiceClient(first.line.api, first.line.api_key?.secret ?? "").chat("m")).status).toBe(200);
    first.child.kill("SIGKILL");
    await first.exited;
    const half = '{"requestId":"req_1","acc';
    await appendFile(join(served.dataDir, "uis.live-a"), `${half}${half}\n${"\0".repeat(512)}\nodd\n`);
    const second = await served.start({ models }, { env });
    expect((await new ServiceClient(second.line.api, first.line.api_key?.secret ?? "").chat("m")).status).toBe(200);
    await eventually(() => /"lines":3.*damaged lines of the journal/.test(second.stderr()), "the log message");
  });
});
