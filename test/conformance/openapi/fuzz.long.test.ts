import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { documentedOperations, type OpenApiDocument, readOpenApi } from "../../support/openapi-document.js";
import { hasPython, pythonVenv } from "../../support/python-venv.js";
import { type RunningService, startService } from "../../support/start-service.js";

const run = promisify(execFile);
const here = "test/conformance/openapi";
/** Random requests per operation, in addition to those at the schemas' bounds. */
const requestsPerOperation = 400;
const runLimitMs = 900_000;

/** Existing names, so that generated requests are not all answered with 404, and a URL that needs no DNS lookup. */
const known = {
  ChatCompletionRequest: { model: "test-chat" },
  CompletionRequest: { model: "test-chat" },
  EmbeddingRequest: { model: "test-embed" },
  WebhookEndpointRequest: { url: "https://127.0.0.1:9443/hook" },
};

function documentWithKnownNames(): OpenApiDocument {
  const document = structuredClone(readOpenApi());
  for (const [name, values] of Object.entries(known)) {
    const properties = document.components.schemas[name]?.properties as Record<string, object>;
    for (const [field, value] of Object.entries(values)) properties[field] = { enum: [value] };
  }
  return document;
}

/** The document with one false statement: a healthy process reports `fine` instead of `ok`. */
function documentWithFault(): OpenApiDocument {
  const document = structuredClone(readOpenApi());
  const health = document.components.schemas["Health"]?.properties as Record<string, object>;
  health["status"] = { const: "fine" };
  return document;
}

// Needs python3 with venv, which not every machine has.
describe.skipIf(!hasPython)("random requests that are generated from docs/openapi.json", () => {
  let python: string;
  let folder: string;
  let service: RunningService;

  beforeAll(async () => {
    python = await pythonVenv(join(here, "requirements.txt"));
    folder = await mkdtemp(join(tmpdir(), "uis-fuzz-"));
    const webhooks = { deliver: false, allow_private_cidrs: ["127.0.0.0/8"], endpoints_max: 1_000 };
    service = await startService({ config: { webhooks } });
  }, 300_000);
  afterAll(async () => {
    await service.close();
    await rm(folder, { recursive: true });
  });

  /** Resolves with the output of the run. Rejects with the output if Schemathesis found a fault. */
  async function runSchemathesis(document: OpenApiDocument, ...more: readonly string[]): Promise<string> {
    await writeFile(join(folder, "openapi.json"), JSON.stringify(document));
    const config = resolve(here, "schemathesis.toml");
    const args = [
      ...["-m", "schemathesis.cli", "--config-file", config, "run", "openapi.json"],
      ...["--url", service.http, "--header", `Authorization: Bearer ${service.key}`],
      ...["--phases", "examples,coverage,fuzzing", "--max-examples", String(requestsPerOperation)],
      ...["--seed", "1", "--continue-on-failure", "--no-shrink", ...more],
    ];
    const options = { cwd: folder, maxBuffer: 64 * 1024 * 1024 };
    return await run(python, args, options).then(
      ({ stdout }) => stdout,
      (error: { stdout?: string }) => Promise.reject(new Error(error.stdout ?? String(error))),
    );
  }

  it("get documented responses: rejections for invalid ones, and never an internal error (ERR-1, ERR-18, ERR-22, GEN-8)", {
    timeout: runLimitMs,
  }, async () => {
    const report = await runSchemathesis(documentWithKnownNames());
    const operations = documentedOperations(readOpenApi()).length;
    expect(report).toContain(`Tested: ${operations}`);
    expect(Number(/(\d+) generated/.exec(report)?.[1])).toBeGreaterThan(operations * requestsPerOperation);
    expect(service.logs.filter(({ level }) => level === "error" || level === "fatal")).toEqual([]);
  });

  it("make the run fail at an undocumented response", { timeout: runLimitMs }, async () => {
    const search = runSchemathesis(documentWithFault(), "--include-path", "/health", "--max-examples", "1");
    await expect(search).rejects.toThrow("Response violates schema");
  });

  it("leave no running requests and streams", async () => {
    const { requests, streams } = await service.debugState();
    expect({ requests, streams }).toMatchObject({ requests: { running: 0, waiting: 0 }, streams: 0 });
  });
});
