import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { describe, expect, it } from "vitest";
import { type ErrorCode, errorRow, errors } from "../../../src/contract/errors.js";
import { exposedHeaders } from "../../../src/contract/headers.js";
import {
  inferenceNames,
  type Operation,
  type OperationRow,
  operationRow,
  operations,
} from "../../../src/contract/operations.js";
import { version } from "../../../src/contract/version.js";
import { eventTypes } from "../../../src/domain/events/events.js";
import { constraintFields } from "../../../src/domain/inference/constraints.js";
import { countFields, messageFields } from "../../../src/transports/anthropic/read-message.js";
import { anthropicPaths } from "../../../src/transports/anthropic/routes.js";
import { completionFields } from "../../../src/transports/openai/completions.js";
import { embeddingFields } from "../../../src/transports/openai/embeddings.js";
import { webhookFields } from "../../../src/transports/openai/handlers.js";
import { chatFields } from "../../../src/transports/openai/read-chat.js";
import { rerankFields } from "../../../src/transports/openai/rerank.js";
import { responseFields } from "../../../src/transports/openai/responses/read-response.js";
import {
  documentedOperations,
  type JsonSchema,
  lastName,
  readOpenApi,
  responseOf,
} from "../../support/openapi-document.js";

/** Fields of other servers for constrained output that models of this service may support. */
const keptConstraints = [...constraintFields].flatMap(([name, kind]) => (kind === "unsupported" ? [] : [name]));

const document = readOpenApi();
const documented = documentedOperations(document);
const { schemas, responses } = document.components;

/** Paths outside `/v1`: pages without a credential, and one operation. */
const beyondTheTable = ["GET /health", "GET /ready", "GET /version"];

/** Operations of Anthropic's API, with their paths. */
const anthropicOperations = new Map<string, Operation>(
  anthropicPaths.map(({ method, path, name }) => [`${method} ${path}`, name]),
);

/** Codes that no REST response has: a disconnected client receives none, and `gone` occurs in RPCs only. */
const notOnRest: readonly ErrorCode[] = ["client_closed_request", "gone"];
const restCodes = (Object.keys(errors) as ErrorCode[]).filter((code) => !notOnRest.includes(code));

const rowOf = (method: string, path: string): OperationRow | undefined => {
  const anthropic = anthropicOperations.get(`${method} ${path}`);
  if (anthropic !== undefined) return operationRow(anthropic);
  return (Object.values(operations) as OperationRow[]).find(
    ({ rest }) => rest?.method === method && rest.path === path.replace(/\{\w+\}/, "{id}"),
  );
};

/** The values that a property of the error object may have in responses with a status. */
function errorWords(status: number, property: "code" | "type"): readonly unknown[] {
  const answer = documented
    .map(({ operation }) => responseOf(document, operation, status))
    .find((response) => response !== undefined && Object.values(responses).includes(response));
  const schema = answer?.content?.["application/json"]?.schema;
  const [, narrowed] = (schema?.["allOf"] ?? []) as readonly JsonSchema[];
  return narrowed?.properties?.["error"]?.properties?.[property]?.enum ?? [];
}

describe("docs/openapi.json", () => {
  it("passes the linter", () => {
    const env = { ...process.env, REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" };
    const linter = createRequire(import.meta.url).resolve("@redocly/cli/bin/cli.js");
    const args = [linter, "lint", "docs/openapi.json", "--format=json"];
    const report = execFileSync(process.execPath, args, { env, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
    expect(JSON.parse(report)).toMatchObject({ totals: { errors: 0, warnings: 0, ignored: 0 } });
  });

  it("has the version of this package", () => {
    expect(document.info.version).toBe(version);
  });

  it("documents exactly the operations of REST (SEC-2)", () => {
    const table = (Object.values(operations) as OperationRow[]).flatMap(({ rest }) =>
      rest === undefined ? [] : [`${rest.method} ${rest.path}`],
    );
    const names = documented.map(({ method, path }) => `${method} ${path.replace(/\{\w+\}/, "{id}")}`);
    expect(names.toSorted()).toEqual([...table, ...anthropicOperations.keys(), ...beyondTheTable].toSorted());
  });

  it("requires a key for the same operations as the service, and documents 403 where a read key is not enough", () => {
    for (const { method, path, operation } of documented) {
      const isOpen = path === "/health" || path === "/ready";
      expect([path, operation.security?.length === 0]).toEqual([path, isOpen]);
      expect([path, "401" in operation.responses]).toEqual([path, !isOpen]);
      expect([method, path, "403" in operation.responses]).toEqual([
        method,
        path,
        rowOf(method, path)?.need === "read_write",
      ]);
    }
  });

  it("documents exactly the error codes that REST returns, with their status and type", () => {
    expect(schemas["ErrorCode"]?.enum?.toSorted()).toEqual(restCodes.toSorted());
    const statuses = new Set(restCodes.map((code) => errorRow(code).http));
    for (const status of statuses) {
      const codes = restCodes.filter((code) => errorRow(code).http === status);
      expect(errorWords(status, "code")).toEqual(codes);
      expect(errorWords(status, "type")).toEqual(expect.arrayContaining(codes.map((code) => errorRow(code).type)));
    }
    const ofOpenAi = Object.keys(responses).filter((name) => !name.startsWith("Message"));
    expect(ofOpenAi).toHaveLength(statuses.size);
  });

  it("documents every rejection of each operation", () => {
    const inference = documented.filter(({ operation }) => "502" in operation.responses);
    const paths = [
      "/v1/chat/completions",
      "/v1/responses",
      "/v1/completions",
      "/v1/embeddings",
      "/v1/rerank",
      "/v1/messages",
    ];
    expect(inference.map(({ path }) => path)).toEqual(paths);
    const withBody = documented.filter(({ operation }) => operation.requestBody !== undefined);
    for (const { operation } of withBody) {
      expect(Object.keys(operation.responses)).toEqual(expect.arrayContaining(["400", "408", "413", "415"]));
    }
    for (const { operation } of documented) {
      expect(Object.keys(operation.responses)).toEqual(expect.arrayContaining(["200", "400", "405", "431", "500"]));
    }
  });

  it.each([
    ["ChatCompletionRequest", new Set([...chatFields, ...keptConstraints])],
    ["ResponseRequest", responseFields],
    ["CompletionRequest", new Set([...completionFields, ...keptConstraints])],
    ["EmbeddingRequest", embeddingFields],
    ["RerankRequest", rerankFields],
    ["MessageRequest", messageFields],
    ["TokenCountRequest", countFields],
    ["WebhookEndpointRequest", webhookFields],
  ])("%s has the fields that the service reads, and no others", (name, fields) => {
    expect(Object.keys(schemas[name]?.properties ?? {}).toSorted()).toEqual([...fields].toSorted());
  });

  it("documents the headers that the service exposes to scripts in browsers", () => {
    const told = new Set(
      [...Object.values(responses), ...documented.map(({ operation }) => responseOf(document, operation, 200))].flatMap(
        (response) => Object.keys(response?.headers ?? {}),
      ),
    );
    const ours = exposedHeaders.filter((name) => !name.startsWith("grpc-") && name !== "x-client-request-id");
    expect(ours.filter((name) => !told.has(name))).toEqual([]);
  });

  it("has the operations by which usage is grouped (USE-10)", () => {
    const operation = schemas["UsageResult"]?.properties?.["operation"] as { readonly enum: readonly unknown[] };
    expect(operation.enum).toEqual([...inferenceNames.values(), null]);
  });

  it("has the events with the schemas of docs/webhooks (WH-8, WH-10)", () => {
    expect(Object.keys(document.webhooks).toSorted()).toEqual([...eventTypes].toSorted());
    for (const [type, { post }] of Object.entries(document.webhooks)) {
      const text = readFileSync(`docs/webhooks/${type}.schema.json`, "utf8");
      const { $schema: _, ...schema } = JSON.parse(text) as JsonSchema;
      const reference = post.requestBody?.content["application/json"]?.schema["$ref"];
      expect(schemas[lastName(String(reference))]).toEqual(schema);
    }
  });
});
