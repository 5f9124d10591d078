import { defaultAccount } from "../access/api-key.js";
import type { Audit, AuditSource } from "../access/audit.js";
import type { KeyStore } from "../access/key-store.js";
import type { IdSource } from "../call/ports.js";
import { checkAccountName } from "../call/principal.js";
import { refuse, refuseValue } from "../call/service-error.js";
import {
  type Metric,
  type PeriodKind,
  periodAt,
  sumOf,
  type Threshold,
  type ThresholdStore,
  usageScopeOf,
} from "../events/events.js";
import type { UsageReader } from "./usage-store.js";

export interface ThresholdAdminDeps {
  readonly store: ThresholdStore;
  readonly keys: Pick<KeyStore, "find">;
  readonly usage: Pick<UsageReader, "used">;
  readonly audit: Pick<Audit, "record">;
  readonly ids: IdSource;
  /** Store time. */
  readonly now: () => number;
}

/** Input of a new threshold. Null fields are missing or get their default. */
export interface NewThreshold {
  /** Empty: the key's account, otherwise `default`. */
  readonly account: string;
  /** Empty: the whole account. */
  readonly apiKeyId: string;
  readonly metric: Metric | null;
  readonly period: PeriodKind | null;
  readonly limit: bigint;
  /** Empty: 50, 80 and 100. */
  readonly percents: readonly number[];
  readonly action: Threshold["action"] | null;
}

/** Absent fields keep their values. */
export interface ThresholdChange {
  readonly limit?: bigint | undefined;
  readonly percents?: readonly number[] | undefined;
  readonly action?: Threshold["action"] | undefined;
}

/** A threshold with the settled usage of its current period. */
export interface ThresholdProgress {
  readonly threshold: Threshold;
  readonly used: bigint;
}

const percentsDefault: readonly number[] = [50, 80, 100];
const percentsMax = 10;
const limitMax = 2n ** 63n - 1n;

/** Administration of thresholds and budgets. Rejects with ServiceError. */
export class ThresholdAdmin {
  readonly #deps: ThresholdAdminDeps;

  constructor(deps: ThresholdAdminDeps) {
    this.#deps = deps;
  }

  async create(input: NewThreshold, source: AuditSource): Promise<ThresholdProgress> {
    const { store, audit, ids, now } = this.#deps;
    const nowMs = now();
    const threshold: Threshold = {
      id: ids.text("thr_"),
      ...(await this.#ownerOf(input)),
      metric: required(input.metric, "metric"),
      period: required(input.period, "period"),
      limit: checkLimit(input.limit),
      percents: checkPercents(input.percents.length === 0 ? percentsDefault : input.percents),
      action: input.action ?? "notify",
      createdAtMs: nowMs,
      updatedAtMs: nowMs,
    };
    await store.insert(threshold);
    await audit.record(source, "threshold.create", threshold.id, detailsOf(threshold));
    return await this.#progressOf(threshold);
  }

  /** Empty: all accounts. Oldest first. */
  async list(account: string): Promise<readonly ThresholdProgress[]> {
    const thresholds = await this.#deps.store.list();
    const wanted = thresholds.filter((threshold) => account === "" || threshold.account === account);
    return await Promise.all(wanted.map((threshold) => this.#progressOf(threshold)));
  }

  /** Changes a threshold. A percentage whose value changes can fire again in the current period (USE-5). */
  async update(id: string, change: ThresholdChange, source: AuditSource): Promise<ThresholdProgress> {
    const { store, audit, now } = this.#deps;
    const before = (await store.list()).find((threshold) => threshold.id === id);
    if (before === undefined) refuseUnknown(id);
    const threshold: Threshold = {
      ...before,
      limit: change.limit === undefined ? before.limit : checkLimit(change.limit),
      percents: change.percents === undefined ? before.percents : checkPercents(change.percents),
      action: change.action ?? before.action,
      updatedAtMs: now(),
    };
    if (!(await store.replace(threshold))) refuseUnknown(id);
    await audit.record(source, "threshold.update", id, detailsOf(threshold));
    return await this.#progressOf(threshold);
  }

  async remove(id: string, source: AuditSource): Promise<void> {
    if (!(await this.#deps.store.remove(id))) refuseUnknown(id);
    await this.#deps.audit.record(source, "threshold.delete", id);
  }

  async #ownerOf({ account, apiKeyId }: NewThreshold): Promise<Pick<Threshold, "account" | "apiKeyId">> {
    if (account !== "") checkAccountName(account);
    if (apiKeyId === "") return { account: account || defaultAccount, apiKeyId: null };
    const key = await this.#deps.keys.find(apiKeyId);
    if (key === null || (account !== "" && key.account !== account)) {
      refuseValue("api_key_id", "'api_key_id' names no API key of this account.");
    }
    return { account: key.account, apiKeyId };
  }

  async #progressOf(threshold: Threshold): Promise<ThresholdProgress> {
    const { usage, now } = this.#deps;
    const { account, metric, period } = threshold;
    const sums = await usage.used(account, usageScopeOf(threshold), periodAt(period, now()));
    return { threshold, used: sumOf(metric, sums) };
  }
}

function checkLimit(limit: bigint): bigint {
  if (limit >= 1n && limit <= limitMax) return limit;
  refuseValue("limit", `'limit' must be 1 to ${limitMax} tokens, requests or nano-dollars.`);
}

function checkPercents(percents: readonly number[]): readonly number[] {
  const rising = percents.every((percent, i) => i === 0 || percent > (percents[i - 1] ?? 0));
  const inRange = percents.every((percent) => Number.isInteger(percent) && percent >= 1 && percent <= 100);
  if (percents.length >= 1 && percents.length <= percentsMax && rising && inRange) return [...percents];
  refuseValue("percents", `'percents' must be 1 to ${percentsMax} different whole numbers from 1 to 100, rising.`);
}

function detailsOf({ account, metric, period, limit, percents, action }: Threshold): Record<string, string> {
  return { account, metric, period, limit: String(limit), percents: percents.join(","), action };
}

function required<T>(value: T | null, param: string): T {
  return value ?? refuse("missing_required_parameter", param, `'${param}' is required.`);
}

function refuseUnknown(id: string): never {
  refuse("not_found", "id", `There is no threshold ${JSON.stringify(id.slice(0, 64))}.`);
}
