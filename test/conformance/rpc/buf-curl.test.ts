import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { fromBinary } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ErrorInfoSchema } from "../../../gen/google/rpc/error_details_pb.js";
import { type RunningService, startService } from "../../support/start-service.js";

const run = promisify(execFile);
const buf = "node_modules/.bin/buf";

interface Printed {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `buf curl`. Its output is JSON, one document per message, errors included. */
async function curl(...args: readonly string[]): Promise<Printed> {
  try {
    return { code: 0, ...(await run(buf, ["curl", ...args])) };
  } catch (error) {
    const { code, stdout, stderr } = error as Printed;
    return { code, stdout, stderr };
  }
}

const chat = JSON.stringify({
  params: { model: "test-chat", messages: [{ role: "ROLE_USER", content: [{ text: "Hi" }] }] },
});
const method = (name: string) => `/unified.inference.v1.InferenceService/${name}`;

describe("buf curl", () => {
  let service: RunningService;
  let closed: RunningService;
  beforeAll(async () => {
    service = await startService({ config: { grpc: { reflection: true } } });
    closed = await startService();
  });
  afterAll(async () => {
    await service.close();
    await closed.close();
  });
  const credential = () => ["--header", `authorization: Bearer ${service.key}`];
  const grpcUrl = (of: RunningService, path: string) => `http://${of.grpc}${path}`;
  const overGrpc = ["--protocol", "grpc", "--http2-prior-knowledge"];

  it("calls over gRPC, Connect and gRPC-Web with the schema of the repository (GRPC-20)", async () => {
    const ways = [
      { args: overGrpc, url: grpcUrl(service, "") },
      { args: ["--protocol", "connect"], url: service.http },
      { args: ["--protocol", "grpcweb"], url: service.http },
    ];
    for (const { args, url } of ways) {
      const common = [...args, "--schema", ".", ...credential(), "--data", chat];
      const unary = await curl(...common, url + method("CreateChatCompletion"));
      expect(unary.stderr).toBe("");
      expect(JSON.parse(unary.stdout).completion.choices[0].message.content).toBe("Hello from the script.");
      const streamed = await curl(...common, url + method("StreamChatCompletion"));
      expect(streamed.code).toBe(0);
      expect(streamed.stdout).toContain("totalTokens");
    }
  });

  it("needs no schema if grpc.reflection is on (SEC-28, GRPC-18)", async () => {
    const list = await curl(...overGrpc, "--list-methods", grpcUrl(service, ""));
    expect(list.stderr).toBe("");
    expect(list.stdout).toContain("unified.inference.v1.InferenceService/StreamChatCompletion");
    expect(list.stdout).toContain("unified.catalog.v1.CatalogService/WatchModels");
    expect(list.stdout).toContain("grpc.health.v1.Health/Watch");
    const health = await curl(...overGrpc, "--reflect", grpcUrl(service, "/grpc.health.v1.Health/Check"));
    expect(JSON.parse(health.stdout)).toEqual({ status: "SERVING" });
    const answer = await curl(
      ...overGrpc,
      "--reflect",
      ...credential(),
      "--data",
      chat,
      grpcUrl(service, method("CreateChatCompletion")),
    );
    expect(answer.stderr).toBe("");
    expect(JSON.parse(answer.stdout).completion.usage.totalTokens).toBeGreaterThan(0);
  });

  it("cannot list services if grpc.reflection is off (SEC-28, GRPC-18)", async () => {
    const list = await curl(...overGrpc, "--list-methods", grpcUrl(closed, ""));
    expect(list.code).not.toBe(0);
    expect(list.stdout).not.toContain("unified");
  });

  it("shows the details of an error (GRPC-9)", async () => {
    const unknown = chat.replace("test-chat", "none");
    const answer = await curl(
      ...overGrpc,
      "--schema",
      ".",
      ...credential(),
      "--data",
      unknown,
      grpcUrl(service, method("CreateChatCompletion")),
    );
    expect(answer.code).not.toBe(0);
    const { code, details } = JSON.parse(answer.stderr) as { code: string; details: { type: string; value: string }[] };
    expect(code).toBe("not_found");
    expect(details[0]?.type).toBe("google.rpc.ErrorInfo");
    const info = fromBinary(ErrorInfoSchema, Buffer.from(details[0]?.value ?? "", "base64"));
    expect(info.reason).toBe("MODEL_NOT_FOUND");
  });
});
