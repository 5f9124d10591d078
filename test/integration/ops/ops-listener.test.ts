import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { Secret } from "../../../src/lib/secret.js";
import { createOpsListener, type OpsListener } from "../../../src/transports/ops/ops-listener.js";
import { silentLog } from "../../support/silent-log.js";
import { startService } from "../../support/start-service.js";

let listener: OpsListener | null = null;

afterEach(async () => {
  await listener?.close();
  listener = null;
});

async function open(
  deps: { ready?: boolean; debugState?: () => Promise<object>; token?: string } = {},
): Promise<string> {
  const { ready = true, debugState = async () => ({ requests: {} }), token } = deps;
  listener = createOpsListener({
    ready: async () => ({ ready, detail: { status: ready ? "ready" : "draining" } }),
    debugState,
    metrics: { contentType: "text/plain; version=0.0.4", render: async () => "up 1\n" },
    token: token === undefined ? null : new Secret(token),
    log: silentLog,
  });
  return `http://127.0.0.1:${await listener.listen("127.0.0.1", 0)}`;
}

const get = async (url: string, init: RequestInit = {}) => {
  const response = await fetch(url, init);
  return { status: response.status, body: await response.text(), headers: response.headers };
};

describe("the operations listener", () => {
  it("answers liveness checks whether it is ready or not", async () => {
    const url = await open({ ready: false });
    for (const path of ["/health", "/healthz", "/livez"]) expect((await get(url + path)).status).toBe(200);
  });

  it("answers readiness with its detail, and 503 while it is not ready (REL-11)", async () => {
    const url = await open();
    expect(await get(`${url}/ready?x=1`)).toMatchObject({ status: 200, body: '{"status":"ready"}' });
    await listener?.close();
    const draining = await open({ ready: false });
    expect(await get(`${draining}/readyz`)).toMatchObject({ status: 503, body: '{"status":"draining"}' });
  });

  it("answers HEAD without a body, and other methods and paths with what is allowed", async () => {
    const url = await open();
    expect(await get(`${url}/health`, { method: "HEAD" })).toMatchObject({ status: 200, body: "" });
    const post = await get(`${url}/health`, { method: "POST", body: "x" });
    expect(post.status).toBe(405);
    expect(post.headers.get("allow")).toBe("GET, HEAD");
    expect((await get(`${url}/metric`)).status).toBe(404);
    expect((await get(`${url}/__proto__`)).status).toBe(404);
  });

  it("shows metrics as text", async () => {
    const page = await get(`${await open()}/metrics`);
    expect(page).toMatchObject({ status: 200, body: "up 1\n" });
    expect(page.headers.get("content-type")).toBe("text/plain; version=0.0.4");
  });

  /** The status of `/debug/state` for a `Host` header. */
  const statusFor = (url: string, headers: Record<string, string>) =>
    new Promise<number | undefined>((resolve, reject) => {
      const { port } = new URL(url);
      request({ host: "127.0.0.1", port, path: "/debug/state", headers }, (res) => resolve(res.resume().statusCode))
        .on("error", reject)
        .end();
    });

  it.each([
    ["evil.example", 403],
    ["127.0.0.1.evil.example:9464", 403],
    ["localhost.evil.example", 403],
    ["LOCALHOST:9464", 200],
    ["10.0.0.5:9464", 200],
    ["[fd00::5]:9464", 200],
  ])("without a token, answers requests for IP addresses and localhost only: '%s' gets %i", async (host, status) => {
    expect(await statusFor(await open(), { host })).toBe(status);
  });

  describe("with a token", () => {
    const token = "operators-token-0123456789";
    const bearer = (credential: string) => ({ headers: { authorization: `Bearer ${credential}` } });

    it("requires it for metrics and state, and says how to send it (SEC-34)", async () => {
      const url = await open({ token });
      for (const path of ["/metrics", "/debug/state"]) {
        expect((await get(url + path, bearer(token))).status).toBe(200);
        const headers = [undefined, "", token, `Basic ${token}`, `Bearer ${token}x`, `Bearer ${token.slice(1)}`];
        for (const authorization of headers) {
          const refused = await get(url + path, authorization === undefined ? {} : { headers: { authorization } });
          expect(refused.status).toBe(401);
          expect(refused.headers.get("www-authenticate")).toBe('Bearer realm="operations"');
          expect(JSON.parse(refused.body)).toEqual({
            error: "This page requires the token in server.ops_token_file: Authorization: Bearer TOKEN.",
          });
        }
      }
    });

    it("answers probes without it, and shows the details of readiness only with it (SEC-34)", async () => {
      const url = await open({ token, ready: false });
      expect(await get(`${url}/health`)).toMatchObject({ status: 200, body: '{"status":"ok"}' });
      expect(await get(`${url}/ready`)).toMatchObject({ status: 503, body: '{"status":"not_ready"}' });
      expect(await get(`${url}/ready`, bearer(token))).toMatchObject({ status: 503, body: '{"status":"draining"}' });
    });

    it("accepts any host name, because a web page does not have the token", async () => {
      const authorization = `Bearer ${token}`;
      expect(await statusFor(await open({ token }), { host: "metrics.example:9464", authorization })).toBe(200);
    });

    it("uses a replaced token from then on", async () => {
      const url = await open({ token });
      listener?.setToken(new Secret("the-next-token-0123456789"));
      expect((await get(`${url}/metrics`, bearer(token))).status).toBe(401);
      expect((await get(`${url}/metrics`, bearer("the-next-token-0123456789"))).status).toBe(200);
    });
  });

  it("shows the cause of a failed page only in the log", async () => {
    const url = await open({ debugState: () => Promise.reject(new Error("the inner cause")) });
    const page = await get(`${url}/debug/state`);
    expect(page.status).toBe(500);
    expect(page.body).not.toContain("inner cause");
  });
});

describe("a service with server.ops_host and server.ops_token_file", () => {
  it("listens there, requires the token, and reads it again with the configuration (SEC-34)", async () => {
    const folder = await mkdtemp(join(tmpdir(), "uis-ops-"));
    const file = join(folder, "ops.token");
    const [first, second] = ["first-token-0123456789", "second-token-0123456789"];
    await writeFile(file, `${first}\n`);
    const server = { ops_host: "127.0.0.2", ops_token_file: file };
    const { ops, service, close } = await startService({ config: { server } });
    const metricsWith = async (token: string) =>
      (await get(`${ops}/metrics`, { headers: { authorization: `Bearer ${token}` } })).status;
    try {
      expect(new URL(ops).hostname).toBe("127.0.0.2");
      expect((await get(`${ops}/metrics`)).status).toBe(401);
      expect((await get(`${ops}/health`)).status).toBe(200);
      expect(await metricsWith(first)).toBe(200);
      await writeFile(file, second);
      await service.reload.apply(service.config, []);
      expect([await metricsWith(first), await metricsWith(second)]).toEqual([401, 200]);
      await writeFile(file, "short");
      await expect(service.reload.apply(service.config, [])).rejects.toThrow("has no usable token");
      expect(await metricsWith(second)).toBe(200);
    } finally {
      await close();
      await rm(folder, { recursive: true });
    }
  });

  it.each([
    ["", "has no usable token"],
    ["short", "has no usable token"],
    ["has a space 0123456789", "has no usable token"],
    [null, "cannot be read: ENOENT"],
  ])("does not start with the token file %j", async (text, problem) => {
    const folder = await mkdtemp(join(tmpdir(), "uis-ops-"));
    const file = join(folder, "ops.token");
    if (text !== null) await writeFile(file, text);
    await expect(startService({ config: { server: { ops_token_file: file } } })).rejects.toThrow(problem);
    await rm(folder, { recursive: true });
  });

  it("does not start with the address of another machine, and names the setting", async () => {
    await expect(startService({ config: { server: { ops_host: "192.0.2.1" } } })).rejects.toMatchObject({
      message: "port 0 on 192.0.2.1 cannot be used: this machine has no such address",
      fix: "choose an address of this machine with UIS_OPS_HOST (server.ops_host)",
    });
  });
});
