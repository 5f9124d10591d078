/**
 * Every operation of the service: who may call it, and where it is found on each wire. A route or RPC that is not in
 * this table does not exist (SEC-2, SEC-3).
 */

/**
 * What an operation needs. `read` and `read_write` are scopes of API keys (the administrator passes both, as account
 * `default`); `administrator` is never open to an API key.
 */
export type Need = "read" | "read_write" | "administrator";

export interface OperationRow {
  readonly need: Need;
  /** Method and path under `/v1`; `{id}` stands for the rest of the path, slashes included. */
  readonly rest?: { readonly method: "GET" | "POST" | "DELETE"; readonly path: string };
  /** Full names of the RPCs: `package.Service/Method`. */
  readonly rpcs: readonly string[];
}

const inference = "unified.inference.v1.InferenceService";
const catalog = "unified.catalog.v1.CatalogService";
const apiKeys = "unified.admin.v1.ApiKeyService";
const modelAdmin = "unified.admin.v1.ModelAdminService";

export const operations = {
  create_chat_completion: {
    need: "read_write",
    rest: { method: "POST", path: "/v1/chat/completions" },
    rpcs: [`${inference}/CreateChatCompletion`, `${inference}/StreamChatCompletion`],
  },
  create_completion: {
    need: "read_write",
    rest: { method: "POST", path: "/v1/completions" },
    rpcs: [`${inference}/CreateCompletion`, `${inference}/StreamCompletion`],
  },
  create_embeddings: {
    need: "read_write",
    rest: { method: "POST", path: "/v1/embeddings" },
    rpcs: [`${inference}/CreateEmbeddings`],
  },
  list_models: { need: "read", rest: { method: "GET", path: "/v1/models" }, rpcs: [`${catalog}/ListModels`] },
  get_model: { need: "read", rest: { method: "GET", path: "/v1/models/{id}" }, rpcs: [`${catalog}/GetModel`] },
  watch_models: { need: "read", rpcs: [`${catalog}/WatchModels`] },
  create_api_key: { need: "administrator", rpcs: [`${apiKeys}/CreateApiKey`] },
  list_api_keys: { need: "administrator", rpcs: [`${apiKeys}/ListApiKeys`] },
  revoke_api_key: { need: "administrator", rpcs: [`${apiKeys}/RevokeApiKey`] },
  pull_model: { need: "administrator", rpcs: [`${modelAdmin}/PullModel`] },
  import_model: { need: "administrator", rpcs: [`${modelAdmin}/ImportModel`] },
  list_stored_models: { need: "administrator", rpcs: [`${modelAdmin}/ListStoredModels`] },
  remove_model: { need: "administrator", rpcs: [`${modelAdmin}/RemoveModel`] },
  load_model: { need: "administrator", rpcs: [`${modelAdmin}/LoadModel`] },
  unload_model: { need: "administrator", rpcs: [`${modelAdmin}/UnloadModel`] },
  /** `/version` on the public listener. */
  get_version: { need: "read", rpcs: [] },
} as const satisfies Record<string, OperationRow>;

export type Operation = keyof typeof operations;

/** `/package.Service/Method` to its operation: the paths of gRPC, Connect and gRPC-Web. */
export const operationByRpcPath: ReadonlyMap<string, Operation> = new Map(
  (Object.entries(operations) as [Operation, OperationRow][]).flatMap(([name, row]) =>
    row.rpcs.map((rpc) => [`/${rpc}`, name] as const),
  ),
);
