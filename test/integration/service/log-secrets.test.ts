import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Role } from "../../../gen/unified/inference/v1/chat_pb.js";
import { InferenceService } from "../../../gen/unified/inference/v1/inference_service_pb.js";
import { grpcDefinition, grpcPath } from "../../../src/lib/grpc-definition.js";
import { uis } from "../../support/cli-run.js";
import { GrpcClient, metadataOf } from "../../support/grpc-client.js";
import { type RunningService, startService } from "../../support/start-service.js";

const planted = {
  bootstrap: "bootstrap-CANARY-key",
  admin: "admin-CANARY-token-0123",
  prompt: "prompt-CANARY-text",
  answer: "answer-CANARY-text",
  wrongKey: "sk-uis-CANARYCANARYCANARYCANARYCANARYCANARYCANARYCANAR",
};

let service: RunningService;

beforeAll(async () => {
  const failing = (code: string) => ({ text: planted.answer, fail: { code, after_tokens: 1 } });
  service = await startService({
    logLevel: "trace",
    env: { UIS_BOOTSTRAP_API_KEY: planted.bootstrap, UIS_ADMIN_TOKEN: planted.admin },
    config: {
      models: [
        { id: "good", engine: "scripted", scripted: { text: planted.answer } },
        { id: "bad", engine: "scripted", scripted: failing("internal_error") },
        { id: "worse", engine: "scripted", scripted: failing("upstream_error") },
      ],
    },
  });
});

afterAll(async () => {
  await service.close();
});

const bearer = `Bearer ${planted.bootstrap}`;
const text = { case: "text" as const, value: planted.prompt };

async function post(body: string, authorization = bearer, more: Record<string, string> = {}): Promise<number> {
  const headers = { authorization, "content-type": "application/json", cookie: "session=CANARY", ...more };
  const response = await fetch(`${service.api}/chat/completions`, { method: "POST", headers, body });
  await response.text();
  return response.status;
}

const { createChatCompletion } = InferenceService.method;

async function overConnect(request: MessageInitShape<typeof createChatCompletion.input>, more: object) {
  const response = await fetch(`${service.http}${grpcPath(createChatCompletion)}`, {
    method: "POST",
    headers: { authorization: bearer, "content-type": "application/proto", ...more },
    body: toBinary(createChatCompletion.input, create(createChatCompletion.input, request)),
  });
  await response.arrayBuffer();
  return response.status;
}

async function overGrpc(
  request: MessageInitShape<typeof createChatCompletion.input>,
  more: Readonly<Record<string, string>>,
) {
  const client = new GrpcClient(grpcDefinition(InferenceService), service.grpc);
  const metadata = metadataOf({ authorization: bearer, ...more });
  const outcome = await client.unary("createChatCompletion", create(createChatCompletion.input, request), metadata);
  client.close();
  return outcome.status.code;
}

const chat = (model: string, more: object = {}) =>
  JSON.stringify({ model, messages: [{ role: "user", content: planted.prompt }], ...more });

it("no key, token, cookie, prompt or answer is in any log line, also after errors (SEC-18)", async () => {
  expect(await post(chat("good"))).toBe(200);
  expect(await post(chat("good", { stream: true }))).toBe(200);
  expect(await post(chat("bad"))).toBe(500);
  expect(await post(chat("worse", { stream: true }))).toBe(200);
  expect(await post(chat("good", { temperature: planted.prompt }))).toBe(400);
  expect(await post(`{"model":"${planted.prompt}`)).toBe(400);
  expect(await post(chat(planted.prompt))).toBe(404);
  expect(await post(chat("good"), `Bearer ${planted.wrongKey}`)).toBe(401);
  expect(await post(chat("good"), planted.bootstrap)).toBe(401);
  expect((await fetch(`${service.api}/models?api_key=${planted.wrongKey}`)).status).toBe(401);
  const env = { UIS_URL: service.http, UIS_ADMIN_TOKEN: planted.admin };
  expect((await uis(["keys", "create", "--name", "x", "--scope", "read", "--json"], { env })).code).toBe(0);

  const asked = { params: { model: "good", messages: [{ role: Role.USER, content: [{ part: text }] }] } };
  for (const name of ["x-stainless-retry-count", "x-client-request-id"]) {
    for (const value of [planted.wrongKey, `${"x".repeat(3_000)}CANARY`]) {
      expect(await post(chat("good"), bearer, { [name]: value })).toBe(200);
      expect(await overConnect(asked, { [name]: value })).toBe(200);
      expect(await overGrpc(asked, { [name]: value })).toBe(status.OK);
    }
  }

  expect(service.logs.length).toBeGreaterThan(20);
  for (const line of service.logs) expect(JSON.stringify(line)).not.toContain("CANARY");
});
