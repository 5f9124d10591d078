import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hasPython, pythonVenv } from "../../support/python-venv.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { sayings, sdkService } from "./models.js";

const folder = "test/conformance/sdk/python";

interface Refusal {
  readonly class: string;
  readonly status: number;
  readonly body: object;
}

/** The parsed output of the script. */
interface Seen {
  readonly version: string;
  readonly create: object;
  readonly stream_helper: { readonly texts: readonly string[]; readonly message: object };
  readonly tools: object;
  readonly count: number;
  readonly models: readonly string[];
  readonly bad_key: Refusal;
  readonly unknown_model: Refusal;
}

// Needs python3 with venv, which not every machine has.
describe.skipIf(!hasPython)("PyPI anthropic", () => {
  let service: RunningService;
  let seen: Seen;
  beforeAll(async () => {
    service = await startService(sdkService);
    const python = await pythonVenv(`${folder}/agents.txt`);
    const child = spawn(python, [`${folder}/anthropic_client.py`], { stdio: ["pipe", "pipe", "inherit"], env: {} });
    child.stdin.end(JSON.stringify({ http: service.http, key: service.key }));
    const [output, [code]] = await Promise.all([text(child.stdout), once(child, "close")]);
    if (code !== 0) throw new Error(`the script ended with ${code}`);
    seen = JSON.parse(output) as Seen;
  }, 600_000);
  afterAll(() => service.close());

  it("create returns a typed message (ANT-1, ANT-4, ANT-7)", () => {
    expect(seen.version).toBe("2.12.0");
    expect(seen.create).toMatchObject({
      type: "message",
      role: "assistant",
      content: [{ type: "text", text: sayings.chat }],
      stop_reason: "end_turn",
      usage: { input_tokens: 1, output_tokens: 6 },
    });
  });

  it("the stream helper builds the same message (ANT-2, ANT-3)", () => {
    const { texts, message } = seen.stream_helper;
    expect(texts.length).toBeGreaterThan(1);
    expect(texts.join("")).toBe(sayings.chat);
    expect(message).toMatchObject({ content: [{ type: "text", text: sayings.chat }], usage: { output_tokens: 6 } });
  });

  it("the tool runner completes the cycle of call, result and answer (ANT-1, ANT-4)", () => {
    expect(seen.tools).toEqual({ answer: sayings.afterTools, asked: ["Oslo"] });
  });

  it("tokens are counted and models listed (ANT-6)", () => {
    expect(seen.count).toBe(1);
    expect(seen.models).toContain("org/chat:tag");
  });

  it("each rejection is raised as its class (ANT-5)", () => {
    const of = (type: string) => ({ type: "error", error: { type, message: expect.any(String) } });
    expect(seen.bad_key).toMatchObject({ class: "AuthenticationError", status: 401, body: of("authentication_error") });
    expect(seen.unknown_model).toMatchObject({ class: "NotFoundError", status: 404, body: of("not_found_error") });
  });
});
