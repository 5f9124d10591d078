import { create } from "@bufbuild/protobuf";
import { type Timestamp, timestampFromDate } from "@bufbuild/protobuf/wkt";
import { type ApiKey, ApiKeySchema, LimitsSchema, Scope } from "../../../gen/unified/admin/v1/api_key_pb.js";
import { ApiKeyService } from "../../../gen/unified/admin/v1/api_key_service_pb.js";
import { type CliIo, print, printList } from "../command-line/cli-io.js";
import { overlapOf, parseExpiry, toJsonObject } from "../command-line/cli-values.js";
import type { CommandOptions } from "./load-for-command.js";
import { callAsAdministrator, pagesOf, present } from "./service-client.js";

interface Options extends CommandOptions {
  readonly account?: string;
}

interface CreateOptions extends Options {
  readonly name: string;
  readonly scope: "read" | "read_write";
  readonly models?: string[];
  readonly expires?: string;
  readonly rpm?: number;
  readonly tpm?: number;
  readonly concurrency?: number;
}

interface RotateOptions extends Options {
  readonly overlap?: string;
  readonly expires?: string;
}

const pageSize = 1000;

/** `uis keys create` */
export async function createKey(io: CliIo, options: CreateOptions): Promise<void> {
  const { name, account = "", models = [], rpm, tpm, concurrency } = options;
  const scope = options.scope === "read" ? Scope.READ : Scope.READ_WRITE;
  const limits = {
    ...(rpm !== undefined && { requestsPerMinute: BigInt(rpm) }),
    ...(tpm !== undefined && { tokensPerMinute: BigInt(tpm) }),
    ...(concurrency !== undefined && { concurrency }),
  };
  const request = { name, scope, account, models, limits, ...expiryOf(options) };
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
  printList(io, options, keys.map(toKeyObject), keys.map(keyLine), ifNone);
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

function expiryOf({ expires }: { readonly expires?: string }): { expiresAt?: Timestamp } {
  return expires === undefined ? {} : { expiresAt: timestampFromDate(parseExpiry(expires, new Date())) };
}

/** The only output with the secret of a key. */
function printNewKey(io: CliIo, options: Options, created: { apiKey?: ApiKey | undefined; secret: string }): void {
  const key = present(created.apiKey);
  print(io, options, { ...toKeyObject(key), secret: created.secret }, key.id, created.secret);
}

function toKeyObject(key: ApiKey): object {
  const limits = toJsonObject(LimitsSchema, key.limits ?? create(LimitsSchema));
  return { ...toJsonObject(ApiKeySchema, key), scope: scopeName(key.scope), limits };
}

function keyLine(key: ApiKey): string {
  const state = key.revokedAt === undefined ? "" : "  revoked";
  return `${key.id}  ${key.prefix}…${key.last4}  ${scopeName(key.scope).padEnd(10)}  ${key.account}  ${key.name}${state}`;
}

function scopeName(scope: Scope): string {
  return scope === Scope.READ ? "read" : "read_write";
}
