import { create } from "@bufbuild/protobuf";
import { type Limits, LimitsSchema } from "../../../gen/unified/admin/v1/api_key_pb.js";
import { ApiKeyService } from "../../../gen/unified/admin/v1/api_key_service_pb.js";
import type { LimitOwner, LimitReport } from "../../../gen/unified/admin/v1/limit_pb.js";
import { LimitService } from "../../../gen/unified/admin/v1/limit_service_pb.js";
import { printableLine } from "../../lib/display-text.js";
import { type CliIo, print, UsageError } from "../command-line/cli-io.js";
import { isoTime, jsonInteger, toJsonObject } from "../command-line/cli-values.js";
import { numeric, tableLines } from "../command-line/table.js";
import type { CommandOptions } from "./load-for-command.js";
import { administratorTarget, explained, present, type ServiceTarget, serviceClient } from "./service-client.js";

/** Limits to set; `none` removes one, and an absent one stays. */
export interface LimitOptions {
  readonly rpm?: number | "none";
  readonly tpm?: number | "none";
  readonly concurrency?: number | "none";
}

interface OwnerOptions extends CommandOptions {
  readonly account?: string;
  /** Id of an API key. */
  readonly key?: string;
  readonly model?: string;
}

/** The limits after a change; null if no option changes one. */
export function changedLimits(before: Limits | undefined, { rpm, tpm, concurrency }: LimitOptions): Limits | null {
  if (rpm === undefined && tpm === undefined && concurrency === undefined) return null;
  const limits = create(LimitsSchema, before);
  if (rpm !== undefined) limits.requestsPerMinute = rpm === "none" ? undefined : BigInt(rpm);
  if (tpm !== undefined) limits.tokensPerMinute = tpm === "none" ? undefined : BigInt(tpm);
  if (concurrency !== undefined) limits.concurrency = concurrency === "none" ? undefined : concurrency;
  return limits;
}

/** `uis limits show`: of the account `default` if neither an account, a key nor a model is named. */
export async function showLimits(io: CliIo, options: OwnerOptions): Promise<void> {
  const { account = "", key, model } = options;
  if (key !== undefined && (model !== undefined || account !== "")) throw new UsageError("--key excludes the others");
  const owner = ownerOf(options);
  const target = await administratorTarget(io, options);
  const response = explained(target, serviceClient(LimitService, target).getLimits({ owner, account }));
  printReport(io, options, present((await response).report));
}

/** `uis limits set`: limits without an option stay unchanged. */
export async function setLimits(io: CliIo, options: OwnerOptions & LimitOptions): Promise<void> {
  const named = [options.account, options.key, options.model].filter((name) => name !== undefined);
  if (named.length !== 1) throw new UsageError("name one owner: --account ACCOUNT, --key ID or --model MODEL");
  if (changedLimits(undefined, options) === null) {
    throw new UsageError("name a limit to set: --rpm, --tpm or --concurrency, each a number or none");
  }
  const owner = ownerOf(options);
  const target = await administratorTarget(io, options);
  const { key } = options;
  const report = key === undefined ? setOwnLimits(target, owner, options) : setKeyLimits(target, key, options);
  printReport(io, options, await explained(target, report));
}

type OwnerInit = { readonly owner: LimitOwner["owner"] };

/** Returns whose limits are meant: those of the key, else of the model, else of the account. */
function ownerOf({ key, model, account }: Pick<OwnerOptions, "key" | "model" | "account">): OwnerInit {
  if (key !== undefined) return { owner: { case: "apiKeyId", value: key } };
  if (model !== undefined) return { owner: { case: "model", value: model } };
  return { owner: { case: "account", value: account || "default" } };
}

async function setOwnLimits(target: ServiceTarget, owner: OwnerInit, options: LimitOptions): Promise<LimitReport> {
  const client = serviceClient(LimitService, target);
  const { report } = await client.getLimits({ owner });
  const limits = changedLimits(report?.own, options) ?? create(LimitsSchema);
  return present((await client.updateLimits({ owner, limits })).report);
}

async function setKeyLimits(target: ServiceTarget, id: string, options: LimitOptions): Promise<LimitReport> {
  const keys = serviceClient(ApiKeyService, target);
  const { apiKey } = await keys.getApiKey({ id });
  const limits = changedLimits(apiKey?.limits, options) ?? create(LimitsSchema);
  await keys.updateApiKey({ id, limits });
  const owner = ownerOf({ key: id });
  return present((await serviceClient(LimitService, target).getLimits({ owner })).report);
}

function printReport(io: CliIo, options: CommandOptions, report: LimitReport): void {
  print(io, options, toReportObject(report), `${ownerText(report)}:`, "", ...reportLines(io, report));
}

function toReportObject({ owner, account, own, configured, effective, use, updatedAt }: LimitReport): object {
  const nameOf = (wanted: string) => (owner?.owner.case === wanted ? owner.owner.value : null);
  return {
    owner: { account: nameOf("account"), model: nameOf("model"), api_key_id: nameOf("apiKeyId") },
    account,
    own: toLimitsObject(own),
    configured: toLimitsObject(configured),
    effective: toLimitsObject(effective),
    use: {
      requests: jsonInteger(use?.requests ?? 0n),
      tokens: jsonInteger(use?.tokens ?? 0n),
      running: use?.running ?? 0,
    },
    updated_at: isoTime(updatedAt),
  };
}

/** Limits for JSON; a limit that is not set is null. */
export function toLimitsObject(limits: Limits | undefined): object {
  return toJsonObject(LimitsSchema, limits ?? create(LimitsSchema));
}

function ownerText({ owner, account }: LimitReport): string {
  const { case: kind, value = "" } = owner?.owner ?? {};
  const name = printableLine(value);
  if (kind === "model") return `Limits of the model ${name}, used by the account ${account}`;
  return kind === "apiKeyId" ? `Limits of the key ${name}` : `Limits of the account ${name}`;
}

function reportLines(io: CliIo, { own, configured, effective, use }: LimitReport): readonly string[] {
  const row = (name: string, field: "requestsPerMinute" | "tokensPerMinute" | "concurrency", used: unknown) => {
    const limit = effective?.[field];
    return [
      name,
      limit === undefined ? "unlimited" : String(limit),
      own?.[field] === undefined ? "-" : String(own[field]),
      configured?.[field] === undefined ? "-" : String(configured[field]),
      limit === undefined ? "-" : String(used),
    ];
  };
  return tableLines(
    io,
    ["LIMIT", numeric("IN EFFECT"), numeric("OWN"), numeric("CONFIGURED"), numeric("USED")],
    [
      row("requests per minute", "requestsPerMinute", use?.requests ?? 0n),
      row("tokens per minute", "tokensPerMinute", use?.tokens ?? 0n),
      row("concurrent requests", "concurrency", use?.running ?? 0),
    ],
  );
}
