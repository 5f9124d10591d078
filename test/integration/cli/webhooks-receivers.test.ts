import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { afterEach, describe, expect, it } from "vitest";
import { signWebhook } from "../../../src/lib/webhook-signature.js";
import { uis } from "../../support/cli-run.js";
import { uisProgram } from "../../support/program.js";

const secret = `whsec_${Buffer.alloc(32, "s").toString("base64")}`;
const other = `whsec_${Buffer.alloc(32, "o").toString("base64")}`;
const body = '{"id":"evt_1","type":"request.completed","note":"é😀"}';
const now = () => Math.floor(Date.now() / 1000);
const sign = (timestampS = now()) => signWebhook({ secrets: [secret], timestampS, body });

describe("uis webhooks verify", () => {
  const verify = (args: readonly string[], stdin: string | Uint8Array = body) =>
    uis(["webhooks", "verify", ...args], { stdin });

  it("accepts a genuine delivery with any of several secrets (WH-17)", async () => {
    const header = ["--header", sign()];
    const genuine = { code: 0, stdout: '{"valid":true}\n', stderr: "" };
    expect(await verify(["--secret", secret, ...header, "--json"])).toEqual(genuine);
    expect(await verify(["--secret", other, "--secret", secret, ...header, "--json"])).toEqual(genuine);
    expect(await verify(["--secret", secret, ...header])).toEqual({ ...genuine, stdout: "valid\n" });
  });

  it("prints why a delivery is not valid, and exits 1 (WH-17)", async () => {
    const check = async (args: readonly string[], stdin?: string) => {
      const { code, stdout, stderr } = await verify([...args, "--json"], stdin);
      expect(stderr).toBe("");
      return [code, JSON.parse(stdout)];
    };
    const refused = (reason: string) => [1, { valid: false, reason }];
    expect(await check(["--secret", other, "--header", sign()])).toEqual(refused("signature_mismatch"));
    expect(await check(["--secret", secret, "--header", sign()], `${body}\n`)).toEqual(refused("signature_mismatch"));
    expect(await check(["--secret", secret, "--header", sign(now() - 400)])).toEqual(refused("timestamp_too_old"));
    expect(await check(["--secret", secret, "--header", "v1=00"])).toEqual(refused("missing_timestamp"));
    const text = await verify(["--secret", secret, "--header", "t=1"]);
    expect(text).toEqual({ code: 1, stdout: "not valid: the header has no signature v1\n", stderr: "" });
  });

  it("verifies an old delivery as of a given time", async () => {
    const header = ["--header", sign(1_700_000_000), "--json"];
    expect((await verify(["--secret", secret, ...header, "--at", "1700000300"])).code).toBe(0);
    expect((await verify(["--secret", secret, ...header, "--at", "1700000301"])).code).toBe(1);
  });

  it("requires a secret and a header, and limits the size of the body", async () => {
    expect((await verify(["--header", sign()])).code).toBe(2);
    expect((await verify(["--secret", secret])).code).toBe(2);
    expect((await verify(["--secret", "", "--header", sign()])).code).toBe(2);
    const large = await verify(["--secret", secret, "--header", sign()], Buffer.alloc(1_048_577));
    expect(large).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining("more than 1 MiB") });
  });
});

describe("uis webhooks listen", () => {
  const started: ChildProcess[] = [];
  afterEach(async () => {
    for (const child of started.splice(0)) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      child.kill("SIGKILL");
      await once(child, "exit");
    }
  });

  /** Starts the command as a process, because it ends with a signal. */
  async function listen(...args: readonly string[]) {
    const command = [...uisProgram, "webhooks", "listen", "--port", "0", ...args];
    const child = spawn(process.execPath, command, { stdio: ["ignore", "pipe", "pipe"] });
    started.push(child);
    const written = { stdout: "", stderr: "" };
    child.stdout.on("data", (data: Buffer) => {
      written.stdout += data;
    });
    child.stderr.on("data", (data: Buffer) => {
      written.stderr += data;
    });
    await expect.poll(() => written.stderr, { timeout: 30_000 }).toContain("Ctrl-C");
    const [url = ""] = /http:\/\/127\.0\.0\.1:\d+\//.exec(written.stderr) ?? [];
    return { child, written, url };
  }

  const headers = (signature: string) => ({
    "service-signature": signature,
    "service-delivery-id": "dlv_1",
    "service-attempt": "2",
    "webhook-id": "evt_1",
  });
  const post = async (url: string, init: RequestInit) => {
    const response = await fetch(url, { method: "POST", ...init });
    return [response.status, await response.text()];
  };

  it("verifies each delivery, prints a line of JSON for it, and accepts only genuine ones (WH-17)", async () => {
    const { child, written, url } = await listen("--secret", secret, "--json");
    expect(await post(url, { headers: headers(sign()), body })).toEqual([200, ""]);
    expect(await post(url, { headers: headers(sign()), body: "\u001b[2J" })).toEqual([400, "signature_mismatch"]);
    expect(await post(url, {})).toEqual([400, "missing_timestamp"]);
    await expect.poll(() => written.stdout.split("\n").length).toBe(4);
    const lines = written.stdout.trimEnd().split("\n");
    const seen = { received_at: expect.any(String), delivery_id: "dlv_1", attempt: 2, event_id: "evt_1" };
    const nothing = { received_at: expect.any(String), delivery_id: null, attempt: null, event_id: null };
    expect(lines.map((line) => JSON.parse(line))).toEqual([
      { ...seen, event_type: "request.completed", valid: true, reason: null, body },
      { ...seen, event_type: null, valid: false, reason: "signature_mismatch", body: "\u001b[2J" },
      { ...nothing, event_type: null, valid: false, reason: "missing_timestamp", body: "" },
    ]);
    child.kill("SIGINT");
    expect(await once(child, "exit")).toEqual([0, null]);
  });

  it("prints text without terminal control characters, and verifies nothing without a secret", async () => {
    const { child, written, url } = await listen();
    const event = JSON.stringify({ type: "a\u001b[2J\nb" });
    expect(await post(url, { headers: headers("anything"), body: event })).toEqual([200, ""]);
    expect(await post(url, { headers: headers("anything"), body: "\u001b[2J" })).toEqual([200, ""]);
    expect(written.stderr).toContain("signatures are not verified");
    await expect.poll(() => written.stdout.split("\n").length).toBe(5);
    expect(written.stdout).toMatch(/^\d\d:\d\d:\d\d {2}a\[2J b {2}dlv_1 {2}attempt 2 {2}not verified\n {2}\{"type"/);
    expect(written.stdout).not.toContain("\u001b");
    child.kill("SIGTERM");
    expect(await once(child, "exit")).toEqual([0, null]);
  });

  it("rejects other methods, oversized bodies and a port in use", async () => {
    const { url, written } = await listen("--json");
    expect((await fetch(url)).status).toBe(405);
    expect(await post(url, { body: Buffer.alloc(1_048_577) })).toEqual([413, ""]);
    expect(written.stdout).toBe("");
    const taken = await uis(["webhooks", "listen", "--port", new URL(url).port]);
    expect(taken).toMatchObject({ code: 1, stderr: expect.stringContaining("--port") });
  });
});
