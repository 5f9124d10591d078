import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer as createHttpServer, type RequestListener } from "node:http";
import { type AddressInfo, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { uis } from "../../support/cli-run.js";
import { writeTinyGguf } from "../../support/model-files/tiny-gguf.js";
import { type RunningService, startService } from "../../support/start-service.js";

let service: RunningService;
const others: Server[] = [];

beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.close());
afterEach(() => {
  for (const other of others.splice(0)) other.close();
});

async function listen(server: Server): Promise<string> {
  others.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const elsewhere = async (listener: RequestListener) => `http://${await listen(createHttpServer(listener))}`;
/** Commands that call the service in different ways: an RPC, a stream and REST. */
const asking = [
  ["keys", "list"],
  ["run", "test-chat", "Hi"],
  ["run", "test-chat", "Hi", "--json"],
];

/** The one line that each of these commands prints. */
async function failures(env: Record<string, string>): Promise<readonly string[]> {
  return Promise.all(
    asking.map(async (words) => {
      const { code, stdout, stderr } = await uis(words, { env });
      expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
      expect(stderr).toMatch(/^uis: .*\n$/);
      return stderr;
    }),
  );
}

const token = { UIS_ADMIN_TOKEN: "some-token-of-an-administrator" };

describe("a command that calls a service", () => {
  it("accepts UIS_URL with or without a trailing slash, and finds the token of the data folder by flag or variable", async () => {
    for (const [words, env] of [
      [["keys", "list"], { UIS_URL: `${service.http}//`, UIS_DATA_DIR: service.dataDir }],
      [["keys", "list", "--data-dir", service.dataDir], { UIS_URL: service.http, UIS_DATA_DIR: "/nowhere" }],
    ] as const) {
      expect(await uis(words, { env, cwd: "/" })).toMatchObject({ code: 0, stderr: "" });
    }
  });

  it("finds the service by --url, by service.json in its data folder and by its configuration, on any port", async () => {
    const { port } = new URL(service.http);
    const config = join(service.dataDir, "..", "ports.yaml");
    await writeFile(config, `server: { port: ${port} }\n`);
    const token = { UIS_ADMIN_TOKEN: service.adminToken };
    for (const [words, env] of [
      [["keys", "list", "--url", service.http], { UIS_DATA_DIR: service.dataDir, UIS_URL: "http://127.0.0.1:1" }],
      [["keys", "list"], { UIS_DATA_DIR: service.dataDir }],
      [["keys", "list", "--config", config, "--data-dir", "/nowhere"], token],
      [["models", "list"], { UIS_DATA_DIR: service.dataDir }],
    ] as const) {
      expect(await uis(words, { env, cwd: "/" })).toMatchObject({ code: 0, stderr: "" });
    }
  });

  it("sends the token of the data folder only to a service that proves that it holds the token (SEC-35, E-14)", async () => {
    const received: string[] = [];
    const impostor = await elsewhere((request, response) => {
      received.push(`${request.method} ${request.url} ${JSON.stringify(request.headers)}`);
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ service: "unified-inference", proof: "0".repeat(64), nextPageToken: "" }));
    });
    const env = { UIS_URL: impostor, UIS_DATA_DIR: service.dataDir };
    const explanation = `uis: the service at ${impostor} has not proved that it uses the data folder ${service.dataDir}`;
    for (const line of await failures(env)) expect(line).toContain(explanation);
    expect(received.length).toBeGreaterThanOrEqual(asking.length);
    for (const request of received) {
      expect(request).toMatch(/^GET \/(identity\?challenge=[\w-]{43})? /);
      expect(request).not.toContain(service.adminToken);
    }
    // A service with another data folder holds another token.
    const other = await startService();
    onTestFinished(() => other.close());
    const words = ["keys", "list", "--url", other.http, "--data-dir", service.dataDir];
    expect((await uis(words)).stderr).toContain("has not proved");
    // UIS_ADMIN_TOKEN is sent to the service of --url without a proof.
    expect((await uis(words, { env: { UIS_ADMIN_TOKEN: other.adminToken } })).code).toBe(0);
  });

  it("calls the service at --service-url if its own --url is another address", async () => {
    const env = { UIS_DATA_DIR: service.dataDir, UIS_URL: "http://127.0.0.1:1" };
    const add = ["webhooks", "add", "--url", "https://example.com/", "--events", "request.completed"];
    expect((await uis(add, { env })).stderr).toContain("no service answers at http://127.0.0.1:1");
    expect(await uis([...add, "--service-url", service.http], { env })).toMatchObject({ code: 0, stderr: "" });
  });

  it("changes no data folder whose database is locked by a running service, even before the service answers", async () => {
    const running = await startService({ config: { state: { durability: "every-write" } } });
    onTestFinished(() => running.close());
    const copy = join(running.dataDir, "copy.db");
    expect(await uis(["backup", copy], { env: { UIS_DATA_DIR: running.dataDir } })).toMatchObject({ code: 0 });
    await rm(join(running.dataDir, "service.json"));
    const file = join(running.dataDir, "mine.gguf");
    await writeTinyGguf(file);
    const env = { UIS_DATA_DIR: running.dataDir, UIS_SERVER_PORT: "1", UIS_OFFLINE: "1" };
    const source = `file:${file}`;
    for (const words of [
      ["models", "import", file],
      ["models", "pull", source],
      ["models", "rm", "x"],
      ["restore", copy],
    ]) {
      const { code, stderr } = await uis(words, { env });
      expect({ words, code }).toEqual({ words, code: 1 });
      expect(stderr).toContain(`uses the data folder ${running.dataDir}: stop it first`);
    }
    expect((await uis(["restore", copy], { env: { ...env, REDIS_URL: "redis://127.0.0.1:1" } })).stderr).toContain(
      "in Redis",
    );
  });

  it("removes no model while the process in service.json runs but does not answer", async () => {
    const dataDir = await mkdtemp(join(tmpdir(), "uis-busy-"));
    onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
    const file = join(dataDir, "mine.gguf");
    await writeTinyGguf(file);
    const env = { UIS_DATA_DIR: dataDir, UIS_SERVER_PORT: "1" };
    expect(await uis(["models", "import", file, "--id", "mine"], { env })).toMatchObject({ code: 0 });
    const at = { url: "http://127.0.0.1:1", grpc: "127.0.0.1:1", ops: "http://127.0.0.1:1", pid: process.pid };
    await writeFile(join(dataDir, "service.json"), JSON.stringify(at));
    expect(await uis(["models", "rm", "mine"], { env })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`process ${process.pid} uses this data folder but does not answer`),
    });
    // The file of a killed process remains; its process id does not exist.
    await writeFile(join(dataDir, "service.json"), JSON.stringify({ ...at, pid: 2 ** 22 + 1 }));
    expect(await uis(["models", "rm", "mine"], { env })).toMatchObject({ code: 0 });
  });

  it("exits 2 for an empty --account, e.g. from an unset variable, without calling the service", async () => {
    const env = { UIS_URL: service.http, UIS_DATA_DIR: service.dataDir };
    for (const words of [
      ["keys", "create", "--name", "a", "--scope", "read"],
      ["keys", "list"],
      ["thresholds", "add", "--metric", "tokens", "--period", "day", "--limit", "1"],
      ["thresholds", "list"],
      ["usage"],
      ["webhooks", "list"],
    ]) {
      const { code, stdout, stderr } = await uis([...words, "--account", ""], { env });
      expect([code, stdout, stderr]).toEqual([2, "", expect.stringContaining("It must not be empty")]);
    }
  });

  it("exits 2 for an invalid UIS_URL", async () => {
    for (const url of ["127.0.0.1:8080", "ftp://x/", "http://"]) {
      const line = `uis: UIS_URL is not an http URL: ${url}\n`;
      expect(await uis(["keys", "list"], { env: { ...token, UIS_URL: url } })).toEqual({
        code: 2,
        stdout: "",
        stderr: line,
      });
    }
  });

  it("names the variable of a rejected credential", async () => {
    const key = { UIS_URL: service.http, UIS_API_KEY: "sk-uis-wrong", UIS_DATA_DIR: service.dataDir };
    const [, text, json] = await Promise.all(asking.map((words) => uis(words, { env: key })));
    for (const answer of [text, json]) {
      expect(answer).toMatchObject({ code: 1, stdout: "" });
      expect(answer?.stderr).toContain(`${service.http} does not accept the credential in UIS_API_KEY: `);
      expect(answer?.stderr).not.toContain("sk-uis-wrong");
    }
  });

  it("reports that another program answered", async () => {
    const url = await elsewhere((_, response) => response.writeHead(502, { "content-type": "text/html" }).end("<p>"));
    for (const line of await failures({ ...token, UIS_URL: url })) {
      expect(line).toBe(`uis: ${url} answered with HTTP 502, not as this service does: check UIS_URL\n`);
    }
  });

  it("reports that the connection was closed, or that the server does not use TLS", async () => {
    const silent = await listen(createServer((socket) => socket.destroy()));
    for (const line of await failures({ ...token, UIS_URL: `http://${silent}` })) {
      expect(line).toMatch(/^uis: http:\S+ cannot be reached \(.+\): check UIS_URL\n$/);
    }
    const plain = service.http.replace("http:", "https:");
    for (const line of await failures({ ...token, UIS_URL: plain })) {
      expect(line).toBe(`uis: ${plain} cannot be reached (it does not use TLS): check UIS_URL\n`);
    }
  });
});
