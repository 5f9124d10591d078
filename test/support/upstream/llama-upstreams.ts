import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type RunningService, startService } from "../start-service.js";
import { LlamaServer, type LlamaServerOptions } from "./llama-server.js";

/** A model on a server of llama.cpp, whose weights are generated for the test. */
export interface LlamaUpstream {
  /** Id of the model, and name of its upstream. */
  readonly id: string;
  /** Writes the weights, a GGUF file. */
  write(path: string): Promise<void>;
  readonly server: Omit<LlamaServerOptions, "file" | "alias">;
  /** Settings of the model in addition to its upstream. */
  readonly settings?: object;
}

export interface LlamaUpstreams extends RunningService {
  /** The server of a model. */
  server(id: string): LlamaServer;
}

/** A service whose models run on llama.cpp's own servers. */
export async function startLlamaUpstreams(
  models: readonly LlamaUpstream[],
  config: object = {},
): Promise<LlamaUpstreams> {
  const folder = await mkdtemp(join(tmpdir(), "llama-upstreams-"));
  const servers = new Map<string, LlamaServer>();
  const stop = async (): Promise<void> => {
    for (const server of servers.values()) await server.stop();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    for (const { id, write, server } of models) {
      const file = join(folder, `${id}.gguf`);
      await write(file);
      servers.set(id, await LlamaServer.start({ ...server, file, alias: id }));
    }
    const upstreams = [...servers].map(([id, { url }]) => [id, { url, kind: "llama-server" }] as const);
    const service = await startService({
      config: {
        upstreams: Object.fromEntries(upstreams),
        models: models.map(({ id, settings }) => ({ id, engine: "openai", upstream: id, ...settings })),
        ...config,
      },
    });
    return {
      ...service,
      server: (id) => servers.get(id) ?? fail(id),
      async close() {
        await service.close();
        await stop();
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

function fail(id: string): never {
  throw new Error(`no server of ${id}`);
}
