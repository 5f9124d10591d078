import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fromJson } from "@bufbuild/protobuf";
import { afterEach, beforeEach, expect, it, onTestFinished } from "vitest";
import {
  CreateChatCompletionRequestSchema,
  InferenceService,
} from "../../../gen/unified/inference/v1/inference_service_pb.js";
import { grpcDefinition, grpcPath } from "../../../src/lib/grpc-definition.js";
import { errorFacts, GrpcClient, metadataOf } from "../../support/grpc-client.js";
import { type ReadyLine, type ServeProcess, ServiceFolder, type SpawnOptions } from "../../support/service-process.js";
import { startService } from "../../support/start-service.js";

let folder: ServiceFolder;
let cwd: string;

beforeEach(async () => {
  folder = await ServiceFolder.create();
  cwd = folder.folder;
});

afterEach(() => folder.remove());

function serve(options: Partial<SpawnOptions> = {}): ServeProcess {
  return folder.spawn({ ...options, env: { UIS_STATE_DURABILITY: "none", ...options.env } });
}

const slowModel = `models:
  - id: slow
    engine: scripted
    scripted: { text: "tick", tokens: 100000, token_delay_ms: 20 }
`;

it("SIGHUP replaces models, names changes that need a restart, and changes nothing if the file is invalid", async () => {
  const file = join(cwd, "uis.yaml");
  await writeFile(file, slowModel);
  const service = serve();
  const line = await service.ready;
  const headers = { authorization: `Bearer ${line.api_key?.secret}` };
  const models = async () => {
    const response = await fetch(`${line.api}/models`, { headers });
    const list = (await response.json()) as { data: { id: string }[] };
    return list.data.map((model) => model.id);
  };
  await writeFile(file, "models: [{ id: other, engine: scripted }]\nlimits: { header_bytes_max: 16KiB }\n");
  service.child.kill("SIGHUP");
  await expect.poll(models, { timeout: 5_000 }).toEqual(["other"]);
  await expect.poll(() => service.stderr()).toContain('"settings":["limits.header_bytes_max"]');
  await writeFile(file, "models: [{ id: third }]\n");
  service.child.kill("SIGHUP");
  await expect.poll(() => service.stderr()).toContain("the configuration was not reloaded");
  expect(await models()).toEqual(["other"]);
});

it("SIGHUP changes how long idle connections of HTTP are kept (CONN-4)", async () => {
  const file = join(cwd, "uis.yaml");
  await writeFile(file, "limits: { keep_alive_timeout: 50s }\n");
  const service = serve();
  const { api } = await service.ready;
  const keptFor = async () => (await fetch(`${api}/models`)).headers.get("keep-alive");
  expect(await keptFor()).toBe("timeout=50");
  await writeFile(file, "limits: { keep_alive_timeout: 20s }\n");
  service.child.kill("SIGHUP");
  await expect.poll(keptFor).toBe("timeout=20");
});

it("SIGHUP loads only changed models: an unchanged one keeps its cache", async () => {
  const file = join(cwd, "uis.yaml");
  // If the model were loaded again, its next call would fail like the first one.
  const stays =
    '{ id: stays, engine: scripted, scripted: { text: "a b", fail: { after_tokens: 0, code: internal_error, times: 1 } } }';
  await writeFile(file, `models: [${stays}]\n`);
  const service = serve({ env: { UIS_BOOTSTRAP_API_KEY: "an-own-key-of-mine" } });
  const { api } = await service.ready;
  const ask = async (model: string): Promise<number> => {
    const response = await fetch(`${api}/chat/completions`, {
      method: "POST",
      headers: { authorization: "Bearer an-own-key-of-mine", "content-type": "application/json" },
      body: JSON.stringify({ model, messages: [{ role: "user", content: "x" }] }),
    });
    await response.text();
    return response.status;
  };
  expect([await ask("stays"), await ask("stays")]).toEqual([500, 200]);
  await writeFile(file, `models: [${stays}, { id: added, engine: scripted }]\n`);
  service.child.kill("SIGHUP");
  await expect.poll(() => ask("added")).toBe(200);
  expect(await ask("stays")).toBe(200);
});

/** Requests `n` answers to a text of the given length over each transport; returns each error code, or "ok". */
function askerOf({ api, grpc, api_key }: ReadyLine) {
  const authorization = `Bearer ${api_key?.secret}`;
  const client = new GrpcClient(grpcDefinition(InferenceService), grpc.replace(/^.*:\/\//, ""));
  onTestFinished(() => client.close());
  const post = async (url: string, body: object) => {
    const headers = { authorization, "content-type": "application/json" };
    return (await fetch(url, { method: "POST", headers, body: JSON.stringify(body) })).json();
  };
  return async (model: string, { n = 1, chars = 1 } = {}) => {
    const text = "x".repeat(chars);
    const messages = [{ role: "user", content: text }];
    const rest = (await post(`${api}/chat/completions`, { model, n, messages })) as { error?: { code: string } };
    const params = { model, n, messages: [{ role: "ROLE_USER", content: [{ text }] }] };
    const path = grpcPath(InferenceService.method.createChatCompletion);
    const connect = (await post(new URL(path, api).href, { params })) as {
      details?: { debug?: { reason?: string } }[];
    };
    const message = fromJson(CreateChatCompletionRequestSchema, { params });
    const { status } = await client.unary("createChatCompletion", message, metadataOf({ authorization }));
    const reason = connect.details?.find(({ debug }) => debug?.reason !== undefined)?.debug?.reason;
    return [rest.error?.code, reason?.toLowerCase(), errorFacts(status).reason?.toLowerCase()].map(
      (code) => code ?? "ok",
    );
  };
}

it("SIGHUP replaces limits on every transport, and names those that need a restart", async () => {
  const file = join(cwd, "uis.yaml");
  const models = `${slowModel}  - { id: quick, engine: scripted }\n`;
  const everywhere = (code: string) => [code, code, code];
  await writeFile(file, `${models}limits: { n_max: 2, body_bytes_max: 2KiB }\n`);
  const service = serve();
  const ask = askerOf(await service.ready);
  expect(await ask("quick", { n: 3 })).toEqual(everywhere("integer_above_max_value"));
  expect(await ask("quick", { chars: 3_000 })).toEqual(everywhere("request_too_large"));

  const raised = "n_max: 3, body_bytes_max: 4KiB, header_bytes_max: 16KiB";
  await writeFile(file, `${models}limits: { ${raised} }\n`);
  service.child.kill("SIGHUP");
  await expect.poll(() => service.stderr()).toContain('"settings":["limits.header_bytes_max"]');
  expect(await ask("quick", { n: 3, chars: 3_000 })).toEqual(everywhere("ok"));
  expect(await ask("quick", { n: 4 })).toEqual(everywhere("integer_above_max_value"));
  expect(await ask("quick", { chars: 5_000 })).toEqual(everywhere("request_too_large"));

  await writeFile(file, `${models}limits: { n_max: 4, body_bytes_max: 1 }\n`);
  service.child.kill("SIGHUP");
  await expect.poll(() => service.stderr()).toContain("the configuration was not reloaded");
  expect(await ask("quick", { n: 4 })).toEqual(everywhere("integer_above_max_value"));

  await writeFile(file, `${models}limits: { n_max: 1, body_bytes_max: 1KiB, header_bytes_max: 16KiB }\n`);
  service.child.kill("SIGHUP");
  await expect.poll(() => service.stderr().split("limits reloaded")).toHaveLength(3);
  expect(await ask("quick", { n: 2 })).toEqual(everywhere("integer_above_max_value"));
  expect(await ask("quick", { chars: 2_000 })).toEqual(everywhere("request_too_large"));
  await writeFile(file, `${models}limits: { deadline: 200ms, header_bytes_max: 16KiB }\n`);
  service.child.kill("SIGHUP");
  await expect.poll(() => service.stderr().split("limits reloaded")).toHaveLength(4);
  expect(await ask("slow")).toEqual(everywhere("upstream_timeout"));
  expect(service.stderr().split("need a restart")).toHaveLength(2);
});

it("a reload replaces only changed models, upstreams and limits: unchanged ones keep their objects", async () => {
  const closed = { url: "http://127.0.0.1:1/v1", kind: "generic" };
  const scripted = (id: string, text: string) => ({ id, engine: "scripted", scripted: { text } });
  const upstreamModel = { id: "remote", deployments: [{ engine: "openai", upstream: "one", model: "m" }] };
  const { service, logs, close } = await startService({
    config: {
      upstreams: { one: closed, two: closed },
      models: [scripted("stays", "a"), scripted("changes", "a"), upstreamModel],
    },
  });
  onTestFinished(close);
  const { parts, reload } = service;
  const objects = () => ({
    models: new Map(parts.catalog.all().map((model) => [model.id, model])),
    prices: new Map(parts.catalog.all().map(({ id, prices }) => [id, prices])),
    upstreams: new Map(parts.upstreams.definitions.map((upstream) => [upstream.name, upstream])),
  });
  const before = objects();
  const linesBefore = logs.length;
  await reload.apply(structuredClone(service.config), structuredClone(parts.upstreams.definitions));
  expect(objects()).toEqual(before);
  for (const [id, model] of objects().models) expect(model, id).toBe(before.models.get(id));
  for (const [name, upstream] of objects().upstreams) expect(upstream, name).toBe(before.upstreams.get(name));
  expect(logs.slice(linesBefore)).toEqual([]);

  const next = structuredClone(service.config);
  const models = next.models?.map((model) =>
    model.id === "changes" ? { ...model, scripted: { ...model.scripted, text: "b" } } : model,
  );
  const upstreams = structuredClone(parts.upstreams.definitions).map((upstream) =>
    upstream.name === "two" ? { ...upstream, connectMs: 1_234 } : upstream,
  );
  await reload.apply({ ...next, models: models as typeof next.models }, upstreams);
  await expect.poll(() => objects().models.get("changes") === before.models.get("changes")).toBe(false);
  const after = objects();
  for (const id of ["stays", "remote"]) {
    expect(after.models.get(id), id).toBe(before.models.get(id));
    expect(after.prices.get(id), id).toBe(before.prices.get(id));
  }
  expect(after.upstreams.get("one")).toBe(before.upstreams.get("one"));
  expect(after.upstreams.get("two")).not.toBe(before.upstreams.get("two"));
  expect(logs.slice(linesBefore).map(({ msg }) => msg)).not.toContain("limits reloaded");
});
