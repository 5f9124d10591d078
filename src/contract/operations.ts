import { fixedLimits, type ServiceLimits } from "./limits.js";

/**
 * Credential that an operation needs. `read` and `read_write` are scopes of API keys; the administrator has both, as account
 * `default`. `administrator` rejects API keys, `admin_token` dashboard sessions as well; `none` is for signing in.
 */
export type Need = "none" | "read" | "read_write" | "administrator" | "admin_token";

export interface OperationRow {
  readonly need: Need;
  /** Set for the administrator's operations that change nothing: viewers may call them. */
  readonly isReading?: true;
  /** Set where the answer may contain a new secret: no cache may store it (E-18). */
  readonly hasSecret?: true;
  /** Method and path under `/v1`; `{id}` stands for any part of the path, slashes included. */
  readonly rest?: { readonly method: "GET" | "POST" | "DELETE"; readonly path: string };
  /** Full names of the RPCs: `package.Service/Method`. */
  readonly rpcs: readonly string[];
}

const inference = "unified.inference.v1.InferenceService";
const catalog = "unified.catalog.v1.CatalogService";
const apiKeys = "unified.admin.v1.ApiKeyService";
const sessions = "unified.admin.v1.SessionService";
const system = "unified.admin.v1.SystemService";
const limits = "unified.admin.v1.LimitService";
const usage = "unified.admin.v1.UsageService";
const thresholds = "unified.admin.v1.ThresholdService";
const modelAdmin = "unified.admin.v1.ModelAdminService";
const upstreams = "unified.admin.v1.UpstreamService";
const requestLogs = "unified.admin.v1.RequestLogService";
const webhooks = "unified.webhook.v1.WebhookEndpointService";
const deliveries = "unified.webhook.v1.DeliveryService";

/** Every operation with its callers and its paths. A route or RPC that is not in this table does not exist (SEC-2, SEC-3). */
export const operations = {
  create_chat_completion: {
    need: "read_write",
    rest: { method: "POST", path: "/v1/chat/completions" },
    rpcs: [`${inference}/CreateChatCompletion`, `${inference}/StreamChatCompletion`],
  },
  create_response: { need: "read_write", rest: { method: "POST", path: "/v1/responses" }, rpcs: [] },
  /** Its path is in the table of Anthropic's routes. */
  create_message: { need: "read_write", rpcs: [] },
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
  rerank: {
    need: "read_write",
    rest: { method: "POST", path: "/v1/rerank" },
    rpcs: [`${inference}/Rerank`],
  },
  get_response: { need: "read", rest: { method: "GET", path: "/v1/responses/{id}" }, rpcs: [] },
  delete_response: { need: "read_write", rest: { method: "DELETE", path: "/v1/responses/{id}" }, rpcs: [] },
  list_response_input_items: {
    need: "read",
    rest: { method: "GET", path: "/v1/responses/{id}/input_items" },
    rpcs: [],
  },
  count_tokens: { need: "read_write", rpcs: [`${inference}/CountTokens`] },
  list_models: { need: "read", rest: { method: "GET", path: "/v1/models" }, rpcs: [`${catalog}/ListModels`] },
  get_model: { need: "read", rest: { method: "GET", path: "/v1/models/{id}" }, rpcs: [`${catalog}/GetModel`] },
  watch_models: { need: "read", rpcs: [`${catalog}/WatchModels`] },
  create_api_key: { need: "administrator", hasSecret: true, rpcs: [`${apiKeys}/CreateApiKey`] },
  list_api_keys: { need: "administrator", isReading: true, rpcs: [`${apiKeys}/ListApiKeys`] },
  get_api_key: { need: "administrator", isReading: true, rpcs: [`${apiKeys}/GetApiKey`] },
  update_api_key: { need: "administrator", rpcs: [`${apiKeys}/UpdateApiKey`] },
  rotate_api_key: { need: "administrator", hasSecret: true, rpcs: [`${apiKeys}/RotateApiKey`] },
  revoke_api_key: { need: "administrator", rpcs: [`${apiKeys}/RevokeApiKey`] },
  complete_setup: { need: "none", hasSecret: true, rpcs: [`${sessions}/CompleteSetup`] },
  sign_in: { need: "none", hasSecret: true, rpcs: [`${sessions}/SignIn`] },
  sign_out: { need: "administrator", isReading: true, rpcs: [`${sessions}/SignOut`] },
  list_sessions: { need: "administrator", isReading: true, rpcs: [`${sessions}/ListSessions`] },
  revoke_session: { need: "administrator", rpcs: [`${sessions}/RevokeSession`] },
  change_password: { need: "administrator", rpcs: [`${sessions}/ChangePassword`] },
  create_setup_link: { need: "admin_token", hasSecret: true, rpcs: [`${sessions}/CreateSetupLink`] },
  create_backup: { need: "administrator", rpcs: [`${system}/CreateBackup`] },
  get_system: { need: "administrator", isReading: true, rpcs: [`${system}/GetSystem`] },
  get_history: { need: "administrator", isReading: true, rpcs: [`${system}/GetHistory`] },
  watch_overview: { need: "administrator", isReading: true, rpcs: [`${system}/WatchOverview`] },
  run_doctor: { need: "administrator", rpcs: [`${system}/RunDoctor`] },
  list_audit_records: { need: "administrator", isReading: true, rpcs: [`${system}/ListAuditRecords`] },
  get_limits: { need: "administrator", isReading: true, rpcs: [`${limits}/GetLimits`] },
  update_limits: { need: "administrator", rpcs: [`${limits}/UpdateLimits`] },
  reset_window: { need: "administrator", rpcs: [`${limits}/ResetWindow`] },
  get_usage: { need: "read", rest: { method: "GET", path: "/v1/usage" }, rpcs: [`${usage}/QueryUsage`] },
  watch_usage: { need: "read", rpcs: [`${usage}/WatchUsage`] },
  create_threshold: { need: "administrator", rpcs: [`${thresholds}/CreateThreshold`] },
  list_thresholds: { need: "administrator", isReading: true, rpcs: [`${thresholds}/ListThresholds`] },
  update_threshold: { need: "administrator", rpcs: [`${thresholds}/UpdateThreshold`] },
  delete_threshold: { need: "administrator", rpcs: [`${thresholds}/DeleteThreshold`] },
  create_webhook_endpoint: {
    need: "read_write",
    hasSecret: true,
    rest: { method: "POST", path: "/v1/webhooks" },
    rpcs: [`${webhooks}/CreateWebhookEndpoint`],
  },
  list_webhook_endpoints: {
    need: "read",
    rest: { method: "GET", path: "/v1/webhooks" },
    rpcs: [`${webhooks}/ListWebhookEndpoints`],
  },
  get_webhook_endpoint: {
    need: "read",
    rest: { method: "GET", path: "/v1/webhooks/{id}" },
    rpcs: [`${webhooks}/GetWebhookEndpoint`],
  },
  update_webhook_endpoint: { need: "read_write", rpcs: [`${webhooks}/UpdateWebhookEndpoint`] },
  delete_webhook_endpoint: {
    need: "read_write",
    rest: { method: "DELETE", path: "/v1/webhooks/{id}" },
    rpcs: [`${webhooks}/DeleteWebhookEndpoint`],
  },
  rotate_webhook_secret: { need: "read_write", hasSecret: true, rpcs: [`${webhooks}/RotateWebhookSecret`] },
  send_test_event: { need: "read_write", rpcs: [`${webhooks}/SendTestEvent`] },
  list_deliveries: { need: "administrator", isReading: true, rpcs: [`${deliveries}/ListDeliveries`] },
  get_delivery: { need: "administrator", isReading: true, rpcs: [`${deliveries}/GetDelivery`] },
  retry_delivery: { need: "administrator", rpcs: [`${deliveries}/RetryDelivery`] },
  replay_deliveries: { need: "administrator", rpcs: [`${deliveries}/ReplayDeliveries`] },
  pull_model: { need: "administrator", rpcs: [`${modelAdmin}/PullModel`] },
  list_pulls: { need: "administrator", isReading: true, rpcs: [`${modelAdmin}/ListPulls`] },
  cancel_pull: { need: "administrator", rpcs: [`${modelAdmin}/CancelPull`] },
  search_models: { need: "administrator", isReading: true, rpcs: [`${modelAdmin}/SearchModels`] },
  import_model: { need: "administrator", rpcs: [`${modelAdmin}/ImportModel`] },
  list_stored_models: { need: "administrator", isReading: true, rpcs: [`${modelAdmin}/ListStoredModels`] },
  remove_model: { need: "administrator", rpcs: [`${modelAdmin}/RemoveModel`] },
  load_model: { need: "administrator", rpcs: [`${modelAdmin}/LoadModel`] },
  unload_model: { need: "administrator", rpcs: [`${modelAdmin}/UnloadModel`] },
  list_upstreams: { need: "administrator", isReading: true, rpcs: [`${upstreams}/ListUpstreams`] },
  check_upstream: { need: "administrator", rpcs: [`${upstreams}/CheckUpstream`] },
  create_upstream: { need: "administrator", rpcs: [`${upstreams}/CreateUpstream`] },
  update_upstream: { need: "administrator", rpcs: [`${upstreams}/UpdateUpstream`] },
  delete_upstream: { need: "administrator", rpcs: [`${upstreams}/DeleteUpstream`] },
  drain_deployment: { need: "administrator", rpcs: [`${upstreams}/DrainDeployment`] },
  list_request_logs: { need: "administrator", isReading: true, rpcs: [`${requestLogs}/ListRequestLogs`] },
  get_request_log: { need: "administrator", isReading: true, rpcs: [`${requestLogs}/GetRequestLog`] },
  watch_request_logs: { need: "administrator", isReading: true, rpcs: [`${requestLogs}/WatchRequestLogs`] },
  /** `/version` on the public listener. */
  get_version: { need: "read", rpcs: [] },
} as const satisfies Record<string, OperationRow>;

export type Operation = keyof typeof operations;

/** Operations that run a model, by their names in usage, metrics and traces. */
export const inferenceNames: ReadonlyMap<Operation, string> = new Map([
  ["create_chat_completion", "chat"],
  ["create_completion", "completions"],
  ["create_embeddings", "embeddings"],
  ["rerank", "rerank"],
  ["create_response", "responses"],
  ["create_message", "messages"],
  ["count_tokens", "count_tokens"],
]);

/** Operations to which limits and budgets apply: those that run a model. */
export const inferenceOperations: ReadonlySet<Operation> = new Set(inferenceNames.keys());

/** Operations that run a model on an input and generate no tokens. */
export const inputOperations: ReadonlySet<Operation> = new Set(["create_embeddings", "rerank"]);

/** Size limit of an operation's request message: smaller for operations without a credential and those of sessions. */
export function messageBytesMax(operation: Operation, { bodyBytesMax }: Pick<ServiceLimits, "bodyBytesMax">): number {
  return sessionOperations.has(operation) ? Math.min(fixedLimits.sessionMessageBytesMax, bodyBytesMax) : bodyBytesMax;
}

const rows = Object.entries(operations) as [Operation, OperationRow][];

const sessionOperations: ReadonlySet<Operation> = new Set(
  rows
    .filter(([, { need, rpcs }]) => need === "none" || rpcs.some((rpc) => rpc.startsWith(`${sessions}/`)))
    .map(([name]) => name),
);

/** Operations whose answers may contain a new secret. */
export const secretOperations: ReadonlySet<Operation> = new Set(
  rows.filter(([, { hasSecret }]) => hasSecret).map(([name]) => name),
);

/** The row of an operation, as the type that all rows share. */
export function operationRow(operation: Operation): OperationRow {
  return operations[operation];
}

/** `/package.Service/Method` to its operation: the paths of gRPC, Connect and gRPC-Web. */
export const operationByRpcPath: ReadonlyMap<string, Operation> = new Map(
  rows.flatMap(([name, { rpcs }]) => rpcs.map((rpc) => [`/${rpc}`, name] as const)),
);
