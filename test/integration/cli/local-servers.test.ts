import { afterEach, describe, expect, it } from "vitest";
import { findLocalServers } from "../../../src/app/serve/local-servers.js";
import { answerBytes, RawUpstream } from "../../support/upstream/raw-upstream.js";
import { modelList, type PathAnswer, startServerWith } from "../../support/upstream/server-paths.js";

const servers: RawUpstream[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

async function serve(paths: Readonly<Record<string, PathAnswer>>): Promise<RawUpstream> {
  const server = await startServerWith(paths);
  servers.push(server);
  return server;
}

const list = modelList({ id: "smollm2" });

describe("inference servers on this machine", () => {
  it("are found by their lists of models, and named after their kind", async () => {
    const ollama = await serve({ "/v1/models": list, "/api/version": { version: "0.12.3" } });
    const vllm = await serve({ "/v1/models": list, "/version": { version: "0.9.1" } });
    const other = await serve({ "/v1/models": list });
    expect(await findLocalServers([], [ollama.port, vllm.port, other.port])).toEqual([
      { name: "Ollama", url: ollama.url },
      { name: "vLLM", url: vllm.url },
      { name: "a server with OpenAI's API", url: other.url },
    ]);
  });

  it("are not looked for on the ports of this service", async () => {
    const own = await serve({ "/v1/models": list });
    expect(await findLocalServers([own.port], [own.port])).toEqual([]);
    expect(own.requests).toEqual([]);
  });

  it("are not confused with other programs, and a program that does not answer causes no delay", async () => {
    const silent = await RawUpstream.start(() => {});
    servers.push(silent);
    const page = await serve({ "/v1/models": answerBytes("200 OK", "text/html", "<p>Hello</p>") });
    const locked = await serve({ "/v1/models": answerBytes("401 Unauthorized", "text/plain", "no") });
    const startedAtMs = performance.now();
    expect(await findLocalServers([], [silent.port, page.port, locked.port, 1])).toEqual([]);
    // Five times the limit of 300 ms.
    expect(performance.now() - startedAtMs).toBeLessThan(1_500);
  });
});
