import { modelIdForm, modelIdWords } from "../../contract/names.js";
import { checkLimits, defaultAccount } from "../access/api-key.js";
import type { Audit, AuditSource } from "../access/audit.js";
import type { KeyStore } from "../access/key-store.js";
import { checkAccountName } from "../call/principal.js";
import { type LimitOwner, type RateLimits, unlimited } from "../call/rate-limits.js";
import { refuse, refuseValue } from "../call/service-error.js";
import type { Ledger, WindowUse } from "./ledger.js";
import { isUnlimited, type LimitBook, type LimitStore, limitsOver } from "./limit-book.js";
import type { RejectionCache } from "./limit-response.js";

export interface LimitsAdminDeps {
  readonly book: Pick<LimitBook, "refresh" | "storedOf" | "defaultOf">;
  readonly store: Pick<LimitStore, "put" | "remove">;
  readonly keys: Pick<KeyStore, "find">;
  readonly ledger: Pick<Ledger, "inspect" | "resetWindow">;
  readonly rejections: Pick<RejectionCache, "clear">;
  readonly audit: Pick<Audit, "record">;
  /** Store time. */
  readonly now: () => number;
}

/** Limits of one owner (a key, an account or a model) with their current use. */
export interface LimitReport {
  readonly owner: LimitOwner;
  /** Account of the use. */
  readonly account: string;
  /** A null limit means that the configured default applies. */
  readonly own: RateLimits;
  readonly configured: RateLimits;
  readonly effective: RateLimits;
  readonly use: Omit<WindowUse, "owner">;
  /** Null for a key and when nothing was set. */
  readonly updatedAtMs: number | null;
}

/** An owner of limits. For a model, `account` selects the account whose use is meant. */
export interface LimitTarget {
  readonly owner: LimitOwner;
  readonly account: string;
}

const noUse = { requests: 0, tokens: 0, running: 0 } as const;

/** Administration of limits (state RL-15, state RL-22). Rejects with ServiceError that names the field at fault. */
export class LimitsAdmin {
  readonly #deps: LimitsAdminDeps;

  constructor(deps: LimitsAdminDeps) {
    this.#deps = deps;
  }

  async get(target: LimitTarget): Promise<LimitReport> {
    await this.#deps.book.refresh();
    return this.#report(target);
  }

  /** Replaces the limits of an account or a model; all null restores the default. */
  async update(owner: LimitOwner, limits: RateLimits, by: AuditSource): Promise<LimitReport> {
    if (owner.kind === "key") {
      refuseValue("owner", "'owner' is an API key: its limits are changed with UpdateApiKey.");
    }
    checkOwner(owner);
    checkLimits(limits);
    const { store, book, rejections, audit, now } = this.#deps;
    if (isUnlimited(limits)) await store.remove(owner);
    else await store.put({ owner, limits, updatedAtMs: now() });
    await book.refresh();
    rejections.clear();
    await audit.record(by, "limits.update", targetOf(owner), detailsOf(limits));
    return this.#report({ owner, account: owner.kind === "account" ? owner.id : defaultAccount });
  }

  /** Resets the rate limit windows of a key, account or model; running requests continue. */
  async reset(target: LimitTarget, by: AuditSource): Promise<LimitReport> {
    const { ledger, rejections, audit } = this.#deps;
    const { account } = await this.#resolve(target);
    await ledger.resetWindow(account, target.owner);
    rejections.clear();
    await audit.record(by, "limits.reset_window", targetOf(target.owner), { account });
    return this.#report(target);
  }

  async #report(target: LimitTarget): Promise<LimitReport> {
    const { book, ledger } = this.#deps;
    const { owner } = target;
    const { account, own, updatedAtMs } = await this.#resolve(target);
    const configured = book.defaultOf(owner);
    const effective = limitsOver(own, configured);
    const [use] = isUnlimited(effective) ? [] : await ledger.inspect(account, [{ owner, limits: effective }]);
    return { owner, account, own, configured, effective, use: use ?? noUse, updatedAtMs };
  }

  /** Returns the account to which the windows of an owner belong, and the owner's stored limits. */
  async #resolve({ owner, account }: LimitTarget): Promise<Pick<LimitReport, "account" | "own" | "updatedAtMs">> {
    checkOwner(owner);
    if (owner.kind === "key") {
      const key = await this.#deps.keys.find(owner.id);
      if (key === null) refuse("not_found", "owner", "There is no API key with this id.");
      return { account: key.account, own: key.limits, updatedAtMs: null };
    }
    const stored = this.#deps.book.storedOf(owner);
    const own = stored?.limits ?? unlimited;
    const ofAccount = owner.kind === "account" ? owner.id : checkAccountName(account);
    return { account: ofAccount, own, updatedAtMs: stored?.updatedAtMs ?? null };
  }
}

function checkOwner({ kind, id }: LimitOwner): void {
  if (kind === "account") checkAccountName(id, "owner.account");
  if (kind === "model" && !modelIdForm.test(id)) refuseValue("owner.model", `'owner.model' must be ${modelIdWords}.`);
}

function targetOf({ kind, id }: LimitOwner): string {
  return kind === "key" ? id : `${kind} ${id}`;
}

function detailsOf(limits: RateLimits): Record<string, string> {
  const text = (value: number | null): string => (value === null ? "as configured" : String(value));
  return {
    requests_per_minute: text(limits.requestsPerMinute),
    tokens_per_minute: text(limits.tokensPerMinute),
    concurrency: text(limits.concurrency),
  };
}
