import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { userMessage } from "../../../src/dashboard/pages/playground/answers.js";
import { type Address, exampleOf } from "../../../src/dashboard/pages/playground/examples.js";
import { chatRequest, embeddingRequest, noSettings } from "../../../src/dashboard/pages/playground/requests.js";

const here: Address = { base: "https://ai.example/inference", grpc: "ai.example:50051", isTls: true };
const awkward = `It's "$HOME" \`id\` \\n\nTrue?`;
const request = chatRequest("m", { ...noSettings, temperature: "0.5" }, [userMessage(awkward)]);

/** The arguments that a shell passes for a command line. */
function argumentsOf(command: string): readonly string[] {
  const [, ...rest] = command.split(/^(?:curl|buf curl) /);
  return execFileSync("/bin/sh", ["-c", `printf '%s\\0' ${rest.join("")}`], { env: { UIS_API_KEY: "secret" } })
    .toString()
    .split("\0");
}

describe("a request as code to copy", () => {
  it("is a curl command whose body the shell passes on unchanged", () => {
    const words = argumentsOf(exampleOf("curl", request, here));
    expect(words).toContain("https://ai.example/inference/v1/chat/completions");
    expect(words).toContain("authorization: Bearer secret");
    expect(JSON.parse(words[words.indexOf("-d") + 1] ?? "")).toEqual(request.openai);
  });

  it("is a buf curl command with the contract's message", () => {
    const words = argumentsOf(exampleOf("gRPC", request, here));
    expect(words).toContain("https://ai.example:50051/unified.inference.v1.InferenceService/StreamChatCompletion");
    expect(words).not.toContain("--http2-prior-knowledge");
    expect(JSON.parse(words[words.indexOf("-d") + 1] ?? "")).toEqual({ params: request.params });
    expect(exampleOf("gRPC", request, { ...here, isTls: false })).toContain("--http2-prior-knowledge");
  });

  it("is a Python program with Python literals", () => {
    const text = exampleOf("Python", request, here);
    expect(text).toContain('base_url="https://ai.example/inference/v1", api_key=os.environ["UIS_API_KEY"]');
    expect(text).toContain('client.chat.completions.create(\n    model="m",\n');
    expect(text).toContain("    temperature=0.5,\n    max_tokens=1024,\n    stream=True,\n)");
    expect(exampleOf("Python", embeddingRequest("m", "a"), here)).toContain("client.embeddings.create(");
  });

  it("is a TypeScript program", () => {
    const text = exampleOf("TypeScript", request, here);
    expect(text).toContain("apiKey: env.UIS_API_KEY");
    expect(text).toContain(JSON.stringify(awkward));
  });

  it.each(["curl", "Python", "TypeScript", "gRPC"] as const)("contains no API key: %s", (language) => {
    expect(exampleOf(language, request, here)).not.toMatch(/Bearer (?!\$UIS_API_KEY)/);
  });
});
