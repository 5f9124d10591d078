import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { ModelSchema } from "../../../../gen/unified/catalog/v1/model_pb.js";
import type { ListedModel } from "../../../../src/app/commands/models-access.js";
import { listingLines, readListings, toListingObject } from "../../../../src/app/commands/models-listing.js";

const kept = (id: string): ListedModel => ({
  id,
  kind: "chat",
  bytes: 98_400_000,
  sha256: "0".repeat(64),
  source: "hf:owner/repo/file.gguf@main",
  contextLength: 32_768,
  license: "apache-2.0",
  addedAtMs: 0,
  loaded: false,
});

const served = (id: string, state: string, capabilities: string[] = []) => ({
  model: create(ModelSchema, { id, ownedBy: "o", contextLength: 4096, capabilities }),
  state,
});

const listings = readListings({
  list: async () => [kept("b"), kept("d")],
  served: async () => [
    served("a", "loading"),
    served("b", "loading", ["chat"]),
    served("c", "ready", ["chat", "embeddings"]),
    served("e", "ready", ["rerank"]),
  ],
});

describe("the list of models", () => {
  it("lists a model that is both served and stored once, sorted by id", async () => {
    expect((await listings).map(toListingObject)).toMatchObject([
      { id: "a", kind: null, sha256: null, loaded: false },
      // The served context, which is smaller than the trained one.
      { id: "b", kind: "chat", sha256: "0".repeat(64), context_length: 4096, loaded: false },
      { id: "c", kind: "chat", sha256: null, loaded: true },
      { id: "d", kind: "chat", created: null, context_length: 32_768, capabilities: [], loaded: false },
      { id: "e", kind: "reranking", sha256: null, loaded: true },
    ]);
  });

  it("shows that a model is loading", async () => {
    const io = { stdout: { write() {} }, env: {} };
    expect(listingLines(io, await listings)).toEqual([
      "ID  KIND       CONTEXT  STATE          FILE",
      "a   unknown       4096  loading     no file",
      "b   chat          4096  loading     98.4 MB",
      "c   chat          4096  loaded      no file",
      "d   chat         32768  not loaded  98.4 MB",
      "e   reranking     4096  loaded      no file",
    ]);
  });
});
