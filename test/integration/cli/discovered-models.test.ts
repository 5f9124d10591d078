import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { ServiceFolder } from "../../support/service-process.js";
import { answerBytes, type RawUpstream, sse, streamHead } from "../../support/upstream/raw-upstream.js";
import { start } from "../../support/upstream/test-upstream.js";

let folder: ServiceFolder;

beforeEach(async () => {
  folder = await ServiceFolder.create();
});

afterEach(() => folder.remove());

/** A server with these models, which answers with the id of its first model. */
function serverOf(...ids: string[]): Promise<RawUpstream> {
  return start((socket, { path }) => {
    const data = ids.map((id) => ({ id, object: "model" }));
    const list = answerBytes("200 OK", "application/json", JSON.stringify({ data }));
    const chunk = { choices: [{ index: 0, delta: { content: ids[0] }, finish_reason: "stop" }] };
    if (path === "/v1/models") socket.write(list);
    else socket.end(streamHead + sse(chunk) + sse("[DONE]"));
  });
}

const key = "a-key-of-this-test";

/** Starts the service with a configuration. The returned `reload` replaces the configuration. */
async function startWith(configuration: string) {
  const file = join(folder.folder, "uis.yaml");
  await writeFile(file, configuration);
  const service = folder.spawn({ env: { UIS_STATE_DURABILITY: "none", UIS_BOOTSTRAP_API_KEY: key } });
  const line = await service.ready;
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  return {
    line,
    reload: async (next: string) => {
      await writeFile(file, next);
      service.child.kill("SIGHUP");
    },
    /** The owners of all models, by id. */
    owners: async () => {
      const response = await fetch(`${line.api}/models`, { headers });
      const { data } = (await response.json()) as { data: { id: string; owned_by: string }[] };
      return Object.fromEntries(data.map(({ id, owned_by }) => [id, owned_by]));
    },
    ask: async (model: string) => {
      const body = JSON.stringify({ model, messages: [{ role: "user", content: "x" }] });
      const response = await fetch(`${line.api}/chat/completions`, { method: "POST", headers, body });
      const { choices } = (await response.json()) as { choices: { message: { content: string } }[] };
      return choices[0]?.message.content;
    },
  };
}

const own = "unified-inference";

it("without configured models the upstreams' models are offered, none is downloaded, and upstreams can change", async () => {
  const [one, two] = [await serverOf("alpha", "both"), await serverOf("beta", "both")];
  const { line, reload, owners, ask } = await startWith(`upstreams: { one: { url: "${one.url}", kind: vllm } }\n`);
  expect(line.models).toEqual(["alpha", "both"]);
  expect([await ask("alpha"), await ask("both")]).toEqual(["alpha", "alpha"]);
  await reload(`upstreams: { two: { url: "${two.url}", kind: vllm } }\n`);
  await expect.poll(owners).toEqual({ beta: own, both: own });
  await expect.poll(() => ask("both")).toBe("beta");
});

it("a configured model replaces the discovered one with its id, until it is removed from the configuration", async () => {
  const server = await serverOf("alpha", "beta");
  const upstreams = `upstreams: { up: { url: "${server.url}", discover: 1h } }\n`;
  const model = (id: string) => `models: [{ id: ${id}, owned_by: us, engine: openai, upstream: up, model: alpha }]\n`;
  const { line, reload, owners } = await startWith(upstreams + model("mine"));
  expect(line.models).toEqual(["alpha", "beta", "mine"]);
  await reload(upstreams + model("beta"));
  await expect.poll(owners).toEqual({ alpha: own, beta: "us" });
  await reload(`${upstreams}models: []\n`);
  await expect.poll(owners).toEqual({ alpha: own, beta: own });
  const lists = server.requests.filter(({ path }) => path === "/v1/models");
  // One list by discovery, and one by each configured deployment: a reload lists no upstream again.
  expect(lists).toHaveLength(3);
  await reload(`${upstreams.replace("1h", "off")}models: []\n`);
  await expect.poll(owners).toEqual({});
});
