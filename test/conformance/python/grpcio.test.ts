import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { hasPython, pythonVenv } from "../../support/python-venv.js";
import { type RunningService, startService } from "../../support/start-service.js";

const run = promisify(execFile);
const here = "test/conformance/python";
const protos = [
  ...["chat", "completion", "embedding", "inference_service", "logprobs", "rerank", "usage"].map(
    (name) => `unified/inference/v1/${name}.proto`,
  ),
  ...["catalog_service", "model"].map((name) => `unified/catalog/v1/${name}.proto`),
];
const config = {
  models: [
    { id: "m", engine: "scripted", scripted: { text: "One two three.", token_delay_ms: 1 } },
    { id: "hangs", engine: "scripted", scripted: { text: "One two three.", hang_after_tokens: 1 } },
    { id: "overloaded", engine: "scripted", scripted: { fail: { after_tokens: 0, code: "server_is_overloaded" } } },
  ],
};

// biome-ignore lint/suspicious/noExplicitAny: output of another program
type Seen = any;

// Needs python3 with venv, which not every machine has.
describe.skipIf(!hasPython)("the C-core gRPC client", () => {
  let service: RunningService;
  let stubs: string;
  let seen: Seen;

  beforeAll(async () => {
    const python = await pythonVenv(join(here, "requirements.txt"));
    stubs = await mkdtemp(join(tmpdir(), "uis-stubs-"));
    const out = [`--python_out=${stubs}`, `--grpc_python_out=${stubs}`];
    await run(python, ["-m", "grpc_tools.protoc", "-Iproto", ...out, ...protos]);
    service = await startService({ config });
    const { stdout } = await run(python, [join(here, "grpc_client.py"), stubs, service.grpc, service.key]);
    seen = JSON.parse(stdout);
  }, 300_000);
  afterAll(async () => {
    await service.close();
    await rm(stubs, { recursive: true });
  });

  it.each(["error_details", "status"])("has the same google/rpc/%s.proto as this service", async (name) => {
    const python = await pythonVenv(join(here, "requirements.txt"));
    const { stdout } = await run(python, ["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]);
    const theirs = await readFile(join(stdout.trim(), "google/rpc", `${name}.proto`), "utf8");
    expect(await readFile(`proto/google/rpc/${name}.proto`, "utf8")).toBe(theirs);
  });

  it("gets a whole answer, with the request id in the initial metadata (GRPC-19)", () => {
    expect(seen["unary"]).toEqual({
      content: "One two three.",
      finish_reason: "stop",
      total_tokens: 5,
      request_id: expect.stringMatching(/^req_[0-9a-f]{32}$/),
    });
  });

  it("gets a stream that ends with the usage, and the models (GRPC-19)", () => {
    expect(seen["stream"]).toEqual({ content: "One two three.", total_tokens: 5 });
    expect(seen["models"]).toEqual(["hangs", "m", "overloaded"]);
  });

  it("reads the details of errors (GRPC-19, ERR-5, ERR-7)", () => {
    expect(seen["unknown_model"]).toMatchObject({
      code: "NOT_FOUND",
      reason: "MODEL_NOT_FOUND",
      domain: "unified-inference",
      info: { type: "invalid_request_error", param: "model" },
      fields: ["params.model"],
    });
    expect(seen["bad_value"]).toMatchObject({
      code: "INVALID_ARGUMENT",
      reason: "DECIMAL_ABOVE_MAX_VALUE",
      fields: ["params.temperature"],
    });
  });

  it("gets UNAUTHENTICATED without a credential (ERR-11, KEY-17)", () => {
    expect(seen["no_credential"]).toMatchObject({ code: "UNAUTHENTICATED", reason: "INVALID_API_KEY" });
  });

  it("gets a retry delay (RETRY-1)", () => {
    expect(seen["overloaded"]).toMatchObject({ code: "UNAVAILABLE", reason: "SERVER_IS_OVERLOADED" });
    expect(Number(seen["overloaded"].metadata["retry-after-ms"])).toBeGreaterThan(0);
  });

  it("ends a call at its deadline", () => {
    expect(seen["deadline"].code).toBe("DEADLINE_EXCEEDED");
    expect(seen["deadline"].seconds).toBeLessThan(2);
  });

  it("leaves no running request after a cancelled stream or a deadline", async () => {
    expect(seen["cancel"].code).toBe("CANCELLED");
    await eventually(async () => {
      const { requests, models } = await service.debugState();
      return requests.running === 0 && models.every(({ busy }) => busy === 0);
    }, "all slots are free");
  });

  it("can send a compressed request", () => {
    expect(seen["gzip"]).toEqual({ content: "One two three." });
  });

  it("can send 5 MiB; 21 MiB and 40 KiB of metadata are rejected (SEC-5)", () => {
    expect(seen["sizes"]["5"]).toBe("OK");
    expect(seen["sizes"]["21"]).toMatchObject({ code: "RESOURCE_EXHAUSTED", reason: "REQUEST_TOO_LARGE" });
    expect(seen["large_metadata"]).toMatchObject({ code: "RESOURCE_EXHAUSTED", reason: "REQUEST_HEADERS_TOO_LARGE" });
  });
});
