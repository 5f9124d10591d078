import { type Timestamp, timestampFromDate, timestampMs } from "@bufbuild/protobuf/wkt";
import { type ApiKey, ApiKeySchema, Priority, Scope } from "../../../gen/unified/admin/v1/api_key_pb.js";
import { ApiKeyService } from "../../../gen/unified/admin/v1/api_key_service_pb.js";
import { type CliIo, print, printList, UsageError } from "../command-line/cli-io.js";
import { minuteText, overlapOf, parseExpiry, toJsonObject } from "../command-line/cli-values.js";
import { type Cell, factLines, tableLines } from "../command-line/table.js";
import { changedLimits, type LimitOptions, toLimitsObject } from "./limits.js";
import type { CommandOptions } from "./load-for-command.js";
import { callAsAdministrator, pagesOf, present } from "./service-client.js";

interface Options extends CommandOptions {
  readonly account?: string;
}

type PriorityName = "interactive" | "default" | "batch";

interface CreateOptions extends Options, LimitOptions {
  readonly name: string;
  readonly scope: "read" | "read_write";
  readonly priority?: PriorityName;
  readonly models?: string[];
  readonly expires?: string;
}

interface UpdateOptions extends CommandOptions, LimitOptions {
  readonly name?: string;
  readonly priority?: PriorityName;
  readonly models?: string[];
  readonly allModels?: boolean;
  /** New expiry: a time, or `never`. */
  readonly expires?: string;
}

interface RotateOptions extends Options {
  readonly overlap?: string;
  readonly expires?: string;
}

const pageSize = 1000;

/** `uis keys create` */
export async function createKey(io: CliIo, options: CreateOptions): Promise<void> {
  const { name, account = "", models = [] } = options;
  const scope = options.scope === "read" ? Scope.READ : Scope.READ_WRITE;
  const limits = changedLimits(undefined, options);
  const request = {
    ...{ name, scope, account, models },
    ...(limits !== null && { limits }),
    ...priorityOf(options),
    ...expiryOf(options),
  };
  const created = await callAsAdministrator(io, options, ApiKeyService, (client) => client.createApiKey(request));
  printNewKey(io, options, created);
}

/** `uis keys list`: all pages. */
export async function listKeys(io: CliIo, options: Options): Promise<void> {
  const { account } = options;
  const keys: ApiKey[] = [];
  await callAsAdministrator(io, options, ApiKeyService, async (client) => {
    const page = (pageToken: string) => client.listApiKeys({ account: account ?? "", pageSize, pageToken });
    for await (const { apiKeys } of pagesOf(page)) keys.push(...apiKeys);
  });
  const none = account === undefined ? "there is no key" : `the account ${account} has no key`;
  const ifNone = `${none}: uis keys create --name NAME --scope read_write creates one`;
  const lines = tableLines(io, keyColumns, keys.map(keyCells));
  printList(io, options, keys.map(toKeyObject), lines, ifNone);
}

/** `uis keys update`: changes only the values that its options set. */
export async function updateKey(io: CliIo, id: string, options: UpdateOptions): Promise<void> {
  const { name, models, allModels = false, expires } = options;
  if (allModels && models !== undefined) throw new UsageError("--all-models excludes --models");
  const hasLimits = changedLimits(undefined, options) !== null;
  const changes = {
    ...(name !== undefined && { name }),
    ...priorityOf(options),
    ...((allModels || models !== undefined) && { models: { models: models ?? [] } }),
    ...(expires === "never" ? { neverExpires: true } : expiryOf(options)),
  };
  if (!hasLimits && Object.keys(changes).length === 0) {
    throw new UsageError("nothing to change: name a new value, e.g. --name, --models, --expires, --rpm or --priority");
  }
  const { apiKey } = await callAsAdministrator(io, options, ApiKeyService, async (client) => {
    // The request replaces all limits of the key.
    const before = hasLimits ? (await client.getApiKey({ id })).apiKey?.limits : undefined;
    const limits = changedLimits(before, options);
    return client.updateApiKey({ id, ...changes, ...(limits !== null && { limits }) });
  });
  const key = present(apiKey);
  print(io, options, toKeyObject(key), ...tableLines(io, keyColumns, [keyCells(key)]));
}

/** `uis keys revoke` */
export async function revokeKey(io: CliIo, id: string, options: Options): Promise<void> {
  const { apiKey } = await callAsAdministrator(io, options, ApiKeyService, (client) => client.revokeApiKey({ id }));
  print(io, options, toKeyObject(present(apiKey)), `${id} is revoked.`);
}

/** `uis keys rotate` */
export async function rotateKey(io: CliIo, id: string, options: RotateOptions): Promise<void> {
  const request = { id, ...overlapOf(options), ...expiryOf(options) };
  const created = await callAsAdministrator(io, options, ApiKeyService, (client) => client.rotateApiKey(request));
  printNewKey(io, options, created);
}

const priorities = {
  interactive: Priority.INTERACTIVE,
  default: Priority.DEFAULT,
  batch: Priority.BATCH,
} as const;

function priorityOf({ priority }: { readonly priority?: PriorityName }): { priority?: Priority } {
  return priority === undefined ? {} : { priority: priorities[priority] };
}

/** A service of an earlier version has no priorities; the default is shown for it. */
function priorityName(priority: Priority): PriorityName {
  if (priority === Priority.INTERACTIVE) return "interactive";
  return priority === Priority.BATCH ? "batch" : "default";
}

function expiryOf({ expires }: { readonly expires?: string }): { expiresAt?: Timestamp } {
  return expires === undefined ? {} : { expiresAt: timestampFromDate(parseExpiry(expires, new Date())) };
}

/** The only output with the secret of a key. */
function printNewKey(io: CliIo, options: Options, created: { apiKey?: ApiKey | undefined; secret: string }): void {
  const key = present(created.apiKey);
  const lines = factLines([
    ["Key", key.id],
    ["Secret", `${created.secret}   (shown once: store it now)`],
  ]);
  print(io, options, { ...toKeyObject(key), secret: created.secret }, ...lines);
}

function toKeyObject(key: ApiKey): object {
  const priority = priorityName(key.priority);
  const limits = toLimitsObject(key.limits);
  return { ...toJsonObject(ApiKeySchema, key), scope: scopeName(key.scope), limits, priority };
}

const keyColumns = ["ID", "NAME", "ACCOUNT", "SCOPE", "SECRET", "STATE", "LAST USED", "EXPIRES"];

function keyCells(key: ApiKey): readonly Cell[] {
  const secret = `${key.prefix}…${key.last4}`;
  const lastUsed = minuteText(key.lastUsedAt, "never");
  const expires = minuteText(key.expiresAt, "never");
  return [key.id, key.name, key.account, scopeName(key.scope), secret, stateOf(key), lastUsed, expires];
}

function stateOf({ revokedAt, expiresAt }: ApiKey): Cell {
  if (revokedAt !== undefined) return ["bad", "revoked"];
  return expiresAt !== undefined && timestampMs(expiresAt) <= Date.now() ? ["bad", "expired"] : ["good", "active"];
}

function scopeName(scope: Scope): string {
  return scope === Scope.READ ? "read" : "read_write";
}
