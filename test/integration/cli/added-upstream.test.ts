import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import OpenAI from "openai";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ServiceFolder } from "../../support/service-process.js";
import { answerBytes, type RawUpstream, sse, streamHead } from "../../support/upstream/raw-upstream.js";
import { modelList } from "../../support/upstream/server-paths.js";
import { done, finish, start } from "../../support/upstream/test-upstream.js";

let folder: ServiceFolder;

beforeEach(async () => {
  folder = await ServiceFolder.create();
});

afterEach(() => folder.remove());

const openAiKey = "sk-of-openai";

/** A server that accepts only OpenAI's key, lists these models and answers with the model's name. */
function fakeOpenAi(...ids: string[]): Promise<RawUpstream> {
  return start((socket, { path, headers, body }) => {
    const isAuthorized = headers["authorization"] === `Bearer ${openAiKey}`;
    if (!isAuthorized) socket.end(answerBytes("401 Unauthorized", "application/json", '{"error":{"message":"no"}}'));
    else if (path === "/v1/models") {
      const list = modelList(...ids.map((id) => ({ id, object: "model", owned_by: "openai" })));
      socket.end(answerBytes("200 OK", "application/json", JSON.stringify(list)));
    } else {
      const { model } = JSON.parse(body) as { model: string };
      const chunk = sse({ choices: [{ index: 0, delta: { content: `I am ${model}.` }, finish_reason: null }] });
      socket.end(streamHead + chunk + finish + done);
    }
  });
}

const key = "a-key-of-this-test";
const variables = { UIS_STATE_DURABILITY: "none", UIS_BOOTSTRAP_API_KEY: key };

function serve(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  return folder.spawn({ args: ["--json", ...args], env: { ...variables, ...env } });
}

/** The exit code and the text of a start that fails. */
async function refusal(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const { exited, stderr } = serve(args, env);
  return { code: await exited, text: stderr() };
}

describe("uis serve --upstream openai", () => {
  it("serves OpenAI's models for chat and embeddings if only OPENAI_API_KEY is set, and downloads none", async () => {
    const server = await fakeOpenAi("gpt-4o", "whisper-1", "text-embedding-3-small", "dall-e-3", "gpt-realtime");
    const service = serve(["--upstream", "openai"], { OPENAI_API_KEY: openAiKey, OPENAI_BASE_URL: server.url });
    const { api, models } = await service.ready;
    expect(models).toEqual(["gpt-4o", "text-embedding-3-small"]);

    const client = new OpenAI({ baseURL: api, apiKey: key });
    const listed: string[] = [];
    for await (const { id } of client.models.list()) listed.push(id);
    expect(listed).toEqual(["gpt-4o", "text-embedding-3-small"]);
    const messages = [{ role: "user", content: "Who are you?" }] as const;
    const { data, response } = await client.chat.completions
      .create({ model: "gpt-4o", messages: [...messages] })
      .withResponse();
    expect(data.choices[0]?.message.content).toBe("I am gpt-4o.");
    expect(response.headers.get("x-uis-deployment")).toBe("openai/gpt-4o");
    expect(service.stderr()).not.toContain(openAiKey);
  });

  it("keeps the upstream when the configuration is loaded again", async () => {
    const server = await fakeOpenAi("gpt-4o");
    await writeFile(join(folder.folder, "uis.yaml"), "log: { level: info }\n");
    const service = serve(["--upstream", "openai"], { OPENAI_API_KEY: openAiKey, OPENAI_BASE_URL: server.url });
    const { api } = await service.ready;
    await writeFile(join(folder.folder, "uis.yaml"), "log: { level: debug }\n");
    service.child.kill("SIGHUP");
    await expect.poll(service.stderr).toContain("changed settings need a restart");
    const response = await fetch(`${api}/models`, { headers: { authorization: `Bearer ${key}` } });
    expect(await response.json()).toMatchObject({ data: [{ id: "gpt-4o" }] });
  });

  it("reads the key from a file, and prefers the upstream's own variable to OPENAI_API_KEY", async () => {
    const server = await fakeOpenAi("gpt-4o");
    const file = join(folder.folder, "openai.key");
    await writeFile(file, `${openAiKey}\n`);
    const base = { OPENAI_BASE_URL: server.url };
    for (const env of [
      { OPENAI_API_KEY_FILE: file },
      { UIS_UPSTREAM_OPENAI_KEY: openAiKey, OPENAI_API_KEY: "another" },
    ]) {
      const service = serve(["--upstream", "openai"], { ...base, ...env });
      expect((await service.ready).models).toEqual(["gpt-4o"]);
      await folder.stopAll();
    }
  });

  it("without a key exits with an error of one sentence", async () => {
    expect(await refusal(["--upstream", "openai"])).toEqual({
      code: 2,
      text: "uis: --upstream openai needs an API key: set OPENAI_API_KEY, or OPENAI_API_KEY_FILE to a file with it\n",
    });
  });

  it("names the variable of an unusable key or URL, and never the key", async () => {
    const spaces = await refusal(["--upstream", "openai"], { OPENAI_API_KEY: "two words" });
    expect(spaces.code).toBe(2);
    expect(spaces.text).toContain("set by OPENAI_API_KEY");
    expect(spaces.text).not.toContain("two words");
    const url = await refusal(["--upstream", "openai"], { OPENAI_API_KEY: "k", OPENAI_BASE_URL: "ftp://host/v1" });
    expect(url).toMatchObject({ code: 2, text: expect.stringContaining("set by OPENAI_BASE_URL") as string });
  });
});

describe("uis serve --upstream URL", () => {
  it("detects the kind of the server, and uses it as name of the upstream", async () => {
    const server = await start((socket, { path }) => {
      const answers: Readonly<Record<string, object>> = {
        "/v1/models": modelList({ id: "llama", owned_by: "vllm" }),
        "/version": { version: "0.12.0" },
      };
      socket.end(answerBytes("200 OK", "application/json", JSON.stringify(answers[path] ?? {})));
    });
    const service = serve(["--upstream", server.url]);
    const { ops } = await service.ready;
    const state = (await (await fetch(`${ops}/debug/state`)).json()) as { deployments: { id: string }[] };
    expect(state.deployments.map(({ id }) => id)).toEqual(["vllm/llama"]);
  });

  it("exits with an error for a server that does not answer, a blocked address, and a text that is no URL", async () => {
    // Nothing listens on port 1.
    const refusals = await Promise.all(
      ["http://127.0.0.1:1/v1", "http://169.254.169.254/v1", "vllm"].map((server) => refusal(["--upstream", server])),
    );
    expect(refusals.map(({ code }) => code)).toEqual([2, 2, 2]);
    const [unreachable, metadata, word] = refusals.map(({ text }) => text);
    expect(unreachable).toMatch(/cannot be reached .*: start the server, correct the address/);
    expect(metadata).toContain("link-local or metadata address");
    expect(word).toContain("--upstream takes openai, ollama or the base URL of a server");
  });
});
