import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hasPython, pythonVenv } from "../../support/python-venv.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { sayings, sdkService } from "./models.js";

const folder = fileURLToPath(new URL("python/", import.meta.url));

/** Version 1.50 requests a model with the raw slash of its id in the path; later versions encode it. */
const versions = [
  { version: "3.54.0", requirements: "openai-3.txt" },
  { version: "1.50.0", requirements: "openai-1.txt" },
] as const;

interface Refusal {
  readonly class: string;
  readonly status: number | null;
  readonly code: string;
  readonly type: string;
  readonly param: string | null;
}

/** The parsed output of the script. */
interface Seen {
  readonly version: string;
  readonly create: { readonly completion: object; readonly request_id: string };
  readonly stream: readonly { readonly choices: readonly { readonly delta: { readonly content?: string } }[] }[];
  readonly stream_helper: object;
  readonly embeddings: { readonly default: readonly number[][]; readonly float: readonly number[][] };
  readonly models: { readonly listed: readonly string[]; readonly retrieved: object };
  readonly legacy: { readonly text: string; readonly streamed: string };
  /** Null for versions without the API. */
  readonly responses: {
    readonly created: object;
    readonly deltas: readonly string[];
    readonly streamed: string;
    readonly parsed: object;
    readonly tools: object;
  } | null;
  readonly refusals: Readonly<Record<string, Refusal>>;
  readonly death_in_stream: { readonly error: Refusal; readonly text: string };
  readonly retries: number;
}

/** Runs the script; its stderr is shown in the test's output. */
async function look(requirements: string, { api, key, readKey }: RunningService): Promise<Seen> {
  const python = await pythonVenv(join(folder, requirements));
  const child = spawn(python, [join(folder, "openai_client.py")], { stdio: ["pipe", "pipe", "inherit"], env: {} });
  child.stdin.end(JSON.stringify({ api, key, read_key: readKey }));
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, "close")]);
  if (code !== 0) throw new Error(`the script ended with ${code}`);
  return JSON.parse(output) as Seen;
}

function single(vectors: readonly (readonly number[])[]): number[][] {
  return vectors.map((vector) => vector.map(Math.fround));
}

if (hasPython || process.env["CI"] === "true") {
  describe.each(versions)("PyPI openai $version", ({ version, requirements }) => {
    let service: RunningService;
    let seen: Seen;
    beforeAll(async () => {
      service = await startService(sdkService);
      seen = await look(requirements, service);
    }, 180_000);
    afterAll(() => service.close());

    it("create returns a typed answer (RESP-1, RESP-14, HDR-1)", () => {
      expect(seen.version).toBe(version);
      expect(seen.create.request_id).toMatch(/^req_[0-9a-f]{32}$/);
      expect(seen.create.completion).toMatchObject({
        object: "chat.completion",
        model: "org/chat:tag",
        choices: [{ index: 0, message: { role: "assistant", content: sayings.chat }, finish_reason: "stop" }],
        usage: { prompt_tokens: 1, completion_tokens: 6, total_tokens: 7 },
      });
    });

    it("a stream is read up to its usage (STRM-10, STRM-12)", () => {
      const choices = seen.stream.flatMap((chunk) => chunk.choices);
      expect(choices.map(({ delta }) => delta.content ?? "").join("")).toBe(sayings.chat);
      expect(seen.stream.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: 7 } });
    });

    it("the stream helper, which accumulates all deltas, finds no duplicates (STRM-1, STRM-7, STRM-9, STRM-12, STRM-14, STRM-15)", () => {
      const id = expect.stringMatching(/^call_[A-Za-z0-9]{24}$/);
      expect(seen.stream_helper).toMatchObject({
        choices: [
          {
            finish_reason: "tool_calls",
            message: {
              role: "assistant",
              tool_calls: [
                { id, type: "function", function: { name: "weather", arguments: '{"city":"Oslo"}' } },
                { id, type: "function", function: { name: "clock", arguments: "{}" } },
              ],
            },
          },
        ],
        usage: { prompt_tokens: 1 },
      });
    });

    it("vectors are equal in the SDK's own encoding and as numbers (EMB-6, EMB-7)", () => {
      const { default: byDefault, float } = seen.embeddings;
      expect(float.map((vector) => vector.length)).toEqual([8, 8]);
      // One of the versions decodes to doubles, whose shortest text differs from that of a float32.
      expect(single(byDefault)).toEqual(single(float));
    });

    it("models are listed, and found by an id with a slash and a colon (MODEL-1, MODEL-3)", () => {
      expect(seen.models.listed).toContain("org/chat:tag");
      expect(seen.models.retrieved).toMatchObject({ id: "org/chat:tag", object: "model" });
    });

    it("legacy completions work, whole and streamed (CMPL-4, CMPL-6)", () => {
      expect(seen.legacy).toEqual({ text: sayings.chat, streamed: sayings.chat });
    });

    it("responses work, whole, streamed, parsed and with tools (RSP-4, RSP-5, RSP-7, RSP-8)", () => {
      if (version === "1.50.0") {
        expect(seen.responses).toBeNull();
        return;
      }
      expect(seen.responses).toMatchObject({
        created: {
          object: "response",
          status: "completed",
          output: [{ type: "message", content: [{ type: "output_text", text: sayings.chat }] }],
          usage: { input_tokens: 1, output_tokens: 6, total_tokens: 7 },
        },
        streamed: sayings.chat,
        parsed: JSON.parse(sayings.json),
        tools: { answer: sayings.afterTools, called_with: ['{"city":"Oslo"}'] },
      });
      expect(seen.responses?.deltas.join("")).toBe(sayings.chat);
    });

    it("each rejection is raised as its class, with code and param (ERR-5, ERR-7, ERR-11, ERR-12, ERR-16)", () => {
      const of = (name: string, status: number, type: string, code: string, param: string | null = null): Refusal => ({
        class: name,
        status,
        type,
        code,
        param,
      });
      const invalid = "invalid_request_error";
      expect(seen.refusals).toEqual({
        bad_key: of("AuthenticationError", 401, "authentication_error", "invalid_api_key"),
        read_key: of("PermissionDeniedError", 403, "permission_error", "insufficient_permissions"),
        unknown_model: of("NotFoundError", 404, invalid, "model_not_found", "model"),
        bad_value: of("BadRequestError", 400, invalid, "decimal_above_max_value", "temperature"),
        too_large: of("APIStatusError", 413, invalid, "request_too_large"),
      });
    });

    it("an engine that fails in a stream raises an error with its code (SERR-1, SERR-2)", () => {
      const { error, text: said } = seen.death_in_stream;
      expect(said).toBe("Paris is");
      expect(error).toMatchObject({ class: "APIError", code: "upstream_error", type: "server_error" });
    });

    it("an internal error is retried (RETRY-3)", () => {
      expect(seen.retries).toBe(1);
    });
  });
} else {
  describe("PyPI openai", () => {
    it.skip("skipped: python3 with venv is not available (apt-get install python3 python3-venv)", () => {});
  });
}
