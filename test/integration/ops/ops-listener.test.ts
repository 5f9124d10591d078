import { request } from "node:http";
import { afterEach, describe, expect, it } from "vitest";
import { createOpsListener, type OpsListener } from "../../../src/transports/ops/ops-listener.js";
import { silentLog } from "../../support/silent-log.js";

let listener: OpsListener | null = null;

afterEach(async () => {
  await listener?.close();
  listener = null;
});

async function open(deps: { ready?: boolean; debugState?: () => Promise<object> } = {}): Promise<string> {
  const { ready = true, debugState = async () => ({ requests: {} }) } = deps;
  listener = createOpsListener({
    ready: async () => ({ ready, detail: { status: ready ? "ready" : "draining" } }),
    debugState,
    metrics: { contentType: "text/plain; version=0.0.4", render: async () => "up 1\n" },
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

  it("rejects a foreign host name that resolves to this machine", async () => {
    const { port } = new URL(await open());
    const status = await new Promise<number | undefined>((resolve, reject) => {
      const headers = { host: `evil.example:${port}` };
      request({ host: "127.0.0.1", port, path: "/debug/state", headers }, (res) => resolve(res.resume().statusCode))
        .on("error", reject)
        .end();
    });
    expect(status).toBe(403);
  });

  it("shows the cause of a failed page only in the log", async () => {
    const url = await open({ debugState: () => Promise.reject(new Error("the inner cause")) });
    const page = await get(`${url}/debug/state`);
    expect(page.status).toBe(500);
    expect(page.body).not.toContain("inner cause");
  });
});
