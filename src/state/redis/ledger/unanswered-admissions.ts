import type { AdmitRequest } from "../../../domain/metering/ledger.js";
import type { KeySpace } from "../key-space.js";
import { Batches } from "./batches.js";
import { KeyList } from "./key-list.js";
import { encodeOwners } from "./ledger-line.js";
import { ledgerScripts } from "./ledger-scripts.js";
import type { ScriptRunner } from "./script-runner.js";
import type { TurnBatch } from "./turn.js";

/** Beyond it the oldest are left to a sweep, which counts them as lost requests. */
const unansweredMax = 10_000;
const timeoutMs = 250;

/**
 * Admissions that timed out. The store may have taken them, or take them yet, while their requests were refused here or
 * run under limits of this process: they are taken back, lest a sweep finds them a minute later and counts requests that
 * never ran as lost ones.
 */
export class UnansweredAdmissions {
  readonly #space: KeySpace;
  readonly #waiting = new Map<string, AdmitRequest>();
  readonly #batches: Batches<AdmitRequest, true>;

  constructor(space: KeySpace, runner: ScriptRunner, turn: TurnBatch) {
    this.#space = space;
    this.#batches = new Batches(turn, async (index, requests) => {
      const shard = space.shard(index);
      const keys = new KeyList([shard.format, shard.live, shard.leases]);
      const items = requests.map(({ requestId, account, scopes, budgets }) => [
        requestId,
        encodeOwners(shard, keys, account, [...scopes.map(({ owner }) => owner), ...budgets.map(({ scope }) => scope)]),
      ]);
      await runner.run(ledgerScripts.forget, keys.names, [JSON.stringify(items)], timeoutMs);
      for (const { requestId } of requests) this.#waiting.delete(requestId);
      return requests.map(() => true as const);
    });
  }

  /** Behind the admission on the same connection, so the store takes it back even before it could answer. */
  note(request: AdmitRequest): void {
    const [oldest] = this.#waiting.keys();
    if (this.#waiting.size >= unansweredMax && oldest !== undefined) this.#waiting.delete(oldest);
    this.#waiting.set(request.requestId, request);
    this.#takeBack(request).catch(() => {
      // It waits on, for `takeAllBack`.
    });
  }

  /** It was asked for again and answered. */
  answered(requestId: string): void {
    this.#waiting.delete(requestId);
  }

  /** Rejects with `storage_unavailable` while the store does not take them. */
  async takeAllBack(): Promise<void> {
    await Promise.all([...this.#waiting.values()].map((request) => this.#takeBack(request)));
  }

  #takeBack(request: AdmitRequest): Promise<true> {
    return this.#batches.ask(this.#space.shardOf(request.account).index, request);
  }
}
