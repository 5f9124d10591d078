import { inputOperations } from "../../contract/operations.js";
import type { EndReason } from "../call/call-context.js";
import type { UsageTotal } from "../call/live-requests.js";
import type { ServiceError } from "../call/service-error.js";
import type { CatalogModel } from "../catalog/catalog-model.js";
import { costNano, pricesAt } from "../catalog/prices.js";
import { type EventDraft, type RequestFacts, requestCompleted, requestFailed } from "../events/events.js";
import type { EndpointStore } from "../webhooks/endpoint-store.js";
import type { Budget, LostRequest, Settlement } from "./ledger.js";
import type { ThresholdBook } from "./limit-book.js";

export interface AccountingDeps {
  readonly thresholds: Pick<ThresholdBook, "thresholdsOf" | "budgetsOf">;
  readonly endpoints: Pick<EndpointStore, "mayHaveAny">;
  /** Store time. */
  readonly now: () => number;
}

/** A request with its caller. */
export interface AccountedRequest extends Pick<Settlement, "requestId" | "account" | "keyId" | "operation"> {
  readonly model: Pick<CatalogModel, "id" | "prices">;
  readonly degraded: boolean;
}

export interface RequestEnd {
  readonly why: EndReason;
  /** Set when it did not complete. */
  readonly error: ServiceError | null;
  readonly usage: UsageTotal;
  readonly latencyMs: number;
}

type BilledUsage = Pick<UsageTotal, "promptTokens" | "completionTokens" | "cachedTokens">;

interface Failure {
  readonly code: NonNullable<Settlement["error"]>;
  readonly message: string;
}

const noTokens: BilledUsage = { promptTokens: 0, completionTokens: 0, cachedTokens: 0 };
const replicaLost: Failure = {
  code: "replica_lost",
  message: "The process that ran this request ended before it did.",
};

/** Builds the settlement of a request: its cost, the thresholds that it may cross and its event. */
export class Accounting {
  readonly #deps: AccountingDeps;
  #chargedNano = 0;

  constructor(deps: AccountingDeps) {
    this.#deps = deps;
  }

  /** Budgets that apply to a caller. */
  budgetsOf(caller: Pick<Settlement, "account" | "keyId">): readonly Budget[] {
    return this.#deps.thresholds.budgetsOf(caller);
  }

  /** Maximum cost of a request in nano-dollars at current prices. */
  costOf(model: Pick<CatalogModel, "prices">, promptTokens: number, completionTokens: number): number {
    return this.#cost(model, { promptTokens, completionTokens, cachedTokens: 0 });
  }

  /** Cost of all settlements of this process in nano-dollars. */
  get chargedNano(): number {
    return this.#chargedNano;
  }

  /**
   * A failure before the first token costs no tokens (state RL-14). Embeddings and rankings have no answer tokens, so the
   * input that was read counts.
   */
  settlementOf(request: AccountedRequest, { why, error, usage, latencyMs }: RequestEnd): Settlement {
    const isFree = why === "failed" && usage.completionTokens === 0 && !inputOperations.has(request.operation);
    return this.#settlement(request, why, error, isFree ? noTokens : usage, latencyMs);
  }

  /** Settlement of a request whose process died: its known usage counts, and it is reported as failed (USE-13). */
  settlementOfLost(lost: LostRequest, model: Pick<CatalogModel, "prices"> | null): Settlement {
    const { promptTokens, completionTokens, admittedAtMs } = lost;
    const request = { ...lost, model: { id: lost.model, prices: model?.prices ?? [] }, degraded: false };
    const latencyMs = Math.max(0, this.#deps.now() - admittedAtMs);
    const usage = { promptTokens, completionTokens, cachedTokens: 0 };
    return this.#settlement(request, "failed", replicaLost, usage, latencyMs);
  }

  #settlement(
    request: AccountedRequest,
    why: EndReason,
    error: Failure | null,
    usage: BilledUsage,
    latencyMs: number,
  ): Settlement {
    const { requestId, account, keyId, model, operation, degraded } = request;
    const { promptTokens, completionTokens, cachedTokens } = usage;
    const facts = { requestId, model: model.id, promptTokens, completionTokens, latencyMs };
    const cost = this.#cost(model, usage);
    this.#chargedNano += cost;
    return {
      requestId,
      account,
      keyId,
      model: model.id,
      operation,
      why,
      error: error?.code ?? null,
      promptTokens,
      completionTokens,
      cachedTokens,
      costNano: cost,
      latencyMs,
      degraded,
      // Events report inference requests; counting a prompt is none.
      event:
        operation !== "count_tokens" && this.#deps.endpoints.mayHaveAny(account)
          ? this.#eventOf(facts, why, error)
          : null,
      thresholds: this.#deps.thresholds.thresholdsOf(request),
      endedAtMs: null,
    };
  }

  #cost({ prices }: Pick<CatalogModel, "prices">, usage: BilledUsage): number {
    return prices.length === 0 ? 0 : costNano(pricesAt(prices, this.#deps.now()), usage);
  }

  /** A request whose client disconnected is charged but causes no event (WH-9). */
  #eventOf(facts: RequestFacts, why: EndReason, error: Failure | null): EventDraft | null {
    if (why === "completed") return requestCompleted(facts, this.#deps.now());
    const hasFailed = why === "failed" || why === "deadline" || why === "shutting_down";
    if (!hasFailed || error === null) return null;
    return requestFailed(facts, error, this.#deps.now());
  }
}
