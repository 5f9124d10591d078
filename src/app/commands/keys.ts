import { durationFromMs, type Timestamp, timestampDate, timestampFromDate } from "@bufbuild/protobuf/wkt";
import { type ApiKey, Scope } from "../../../gen/unified/admin/v1/api_key_pb.js";
import { ApiKeyService } from "../../../gen/unified/admin/v1/api_key_service_pb.js";
import { type CliIo, printJson, printLine, UsageError } from "../cli-io.js";
import { parseDuration } from "../config/durations.js";
import { parseExpiry } from "./expiry.js";
import type { ConfigOptions } from "./load-for-command.js";
import { administratorTarget, serviceClient, toCommandError } from "./service-client.js";

interface Options extends ConfigOptions {
  readonly json?: boolean;
  readonly account?: string;
}

export interface CreateOptions extends Options {
  readonly name: string;
  readonly scope: "read" | "read_write";
  readonly models?: string[];
  readonly expires?: string;
  readonly rpm?: number;
  readonly tpm?: number;
  readonly concurrency?: number;
}

export interface RotateOptions extends Options {
  readonly overlap?: string;
  readonly expires?: string;
}

const pageSize = 1000;

/** `uis keys create` */
export async function createKey(io: CliIo, options: CreateOptions): Promise<void> {
  const { rpm, tpm, concurrency } = options;
  const expiry = expiryOf(options);
  const response = await callKeys(io, options, (client) =>
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
  await callKeys(io, options, async (client) => {
    let pageToken = "";
    do {
      const page = await client.listApiKeys({ account: options.account ?? "", pageSize, pageToken });
      keys.push(...page.apiKeys);
      pageToken = page.nextPageToken;
    } while (pageToken !== "");
  });
  if (options.json) printJson(io, keys.map(toKeyObject));
  else for (const key of keys) printLine(io, keyLine(key));
}

/** `uis keys revoke` */
export async function revokeKey(io: CliIo, id: string, options: Options): Promise<void> {
  const { apiKey } = await callKeys(io, options, (client) => client.revokeApiKey({ id }));
  if (options.json) printJson(io, toKeyObject(apiKey));
  else printLine(io, `${id} is revoked.`);
}

/** `uis keys rotate` */
export async function rotateKey(io: CliIo, id: string, options: RotateOptions): Promise<void> {
  const overlap = options.overlap === undefined ? {} : { overlap: durationFromMs(parseOverlap(options.overlap)) };
  const expiry = expiryOf(options);
  printNewKey(io, options, await callKeys(io, options, (client) => client.rotateApiKey({ id, ...overlap, ...expiry })));
}

function parseOverlap(text: string): number {
  const overlapMs = parseDuration(text);
  if (overlapMs !== null) return overlapMs;
  throw new UsageError(`--overlap: "${text}" is no length of time such as 24h, 30m or 0s`);
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

type KeyClient = ReturnType<typeof serviceClient<typeof ApiKeyService>>;

async function callKeys<T>(io: CliIo, options: Options, call: (client: KeyClient) => Promise<T>): Promise<T> {
  const target = await administratorTarget(io, options);
  try {
    return await call(serviceClient(ApiKeyService, target));
  } catch (error) {
    throw toCommandError(error, target);
  }
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
    created_at: toIso(key?.createdAt),
    expires_at: toIso(key?.expiresAt),
    revoked_at: toIso(key?.revokedAt),
    last_used_at: toIso(key?.lastUsedAt),
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

function toIso(time: Timestamp | undefined): string | null {
  return time === undefined ? null : timestampDate(time).toISOString();
}
