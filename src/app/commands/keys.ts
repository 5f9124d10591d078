import { type Timestamp, timestampFromDate } from "@bufbuild/protobuf/wkt";
import { type ApiKey, Scope } from "../../../gen/unified/admin/v1/api_key_pb.js";
import { ApiKeyService } from "../../../gen/unified/admin/v1/api_key_service_pb.js";
import { type CliIo, printJson, printLine, printList } from "../command-line/cli-io.js";
import { isoTime, overlapOf, parseExpiry } from "../command-line/cli-values.js";
import type { ConfigOptions } from "./load-for-command.js";
import { callAsAdministrator } from "./service-client.js";

interface Options extends ConfigOptions {
  readonly json?: boolean;
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
  const { rpm, tpm, concurrency } = options;
  const expiry = expiryOf(options);
  const response = await callAsAdministrator(io, options, ApiKeyService, (client) =>
    client.createApiKey({
      name: options.name,
      scope: options.scope === "read" ? Scope.READ : Scope.READ_WRITE,
      account: options.account ?? "",
      models: options.models ?? [],
      limits: {
        ...(rpm === undefined ? {} : { requestsPerMinute: BigInt(rpm) }),
        ...(tpm === undefined ? {} : { tokensPerMinute: BigInt(tpm) }),
        ...(concurrency === undefined ? {} : { concurrency }),
      },
      ...expiry,
    }),
  );
  printNewKey(io, options, response);
}

/** `uis keys list`: all pages. */
export async function listKeys(io: CliIo, options: Options): Promise<void> {
  const keys: ApiKey[] = [];
  await callAsAdministrator(io, options, ApiKeyService, async (client) => {
    let pageToken = "";
    do {
      const page = await client.listApiKeys({ account: options.account ?? "", pageSize, pageToken });
      keys.push(...page.apiKeys);
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
  });
  if (options.json) printJson(io, keys.map(toKeyObject));
  else
    printList(io, keys.map(keyLine), `${noKeyText(options)}: uis keys create --name NAME --scope read_write makes one`);
}

function noKeyText({ account }: Options): string {
  return account === undefined ? "there is no key" : `the account ${account} has no key`;
}

/** `uis keys revoke` */
export async function revokeKey(io: CliIo, id: string, options: Options): Promise<void> {
  const { apiKey } = await callAsAdministrator(io, options, ApiKeyService, (client) => client.revokeApiKey({ id }));
  if (options.json) printJson(io, toKeyObject(apiKey));
  else printLine(io, `${id} is revoked.`);
}

/** `uis keys rotate` */
export async function rotateKey(io: CliIo, id: string, options: RotateOptions): Promise<void> {
  const overlap = overlapOf(options);
  const expiry = expiryOf(options);
  printNewKey(
    io,
    options,
    await callAsAdministrator(io, options, ApiKeyService, (client) =>
      client.rotateApiKey({ id, ...overlap, ...expiry }),
    ),
  );
}

function expiryOf({ expires }: { readonly expires?: string }): { expiresAt?: Timestamp } {
  return expires === undefined ? {} : { expiresAt: timestampFromDate(parseExpiry(expires, new Date())) };
}

/** The only place where a command shows a secret. */
function printNewKey(
  io: CliIo,
  { json }: Options,
  made: { readonly apiKey?: ApiKey | undefined; readonly secret: string },
): void {
  if (json) printJson(io, { ...toKeyObject(made.apiKey), secret: made.secret });
  else printLine(io, `${made.apiKey?.id ?? ""}\n${made.secret}`);
}

/** A key as every JSON answer shows it. */
function toKeyObject(key: ApiKey | undefined): object {
  return {
    id: key?.id ?? null,
    name: key?.name ?? null,
    account: key?.account ?? null,
    scope: key === undefined ? null : scopeName(key.scope),
    prefix: key?.prefix ?? null,
    last4: key?.last4 ?? null,
    models: key?.models ?? [],
    limits: {
      requests_per_minute: toNumber(key?.limits?.requestsPerMinute),
      tokens_per_minute: toNumber(key?.limits?.tokensPerMinute),
      concurrency: toNumber(key?.limits?.concurrency),
    },
    created_at: isoTime(key?.createdAt),
    expires_at: isoTime(key?.expiresAt),
    revoked_at: isoTime(key?.revokedAt),
    last_used_at: isoTime(key?.lastUsedAt),
  };
}

function keyLine(key: ApiKey): string {
  const state = key.revokedAt === undefined ? "" : "  revoked";
  return `${key.id}  ${key.prefix}…${key.last4}  ${scopeName(key.scope).padEnd(10)}  ${key.account}  ${key.name}${state}`;
}

function scopeName(scope: Scope): string {
  return scope === Scope.READ ? "read" : "read_write";
}

function toNumber(value: bigint | number | undefined): number | null {
  return value === undefined ? null : Number(value);
}
