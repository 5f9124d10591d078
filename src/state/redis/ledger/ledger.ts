import type { Operation } from "../../../contract/operations.js";
import type { Progress } from "../../../domain/call/live-requests.js";
import type { LimitOwner, LimitScope } from "../../../domain/call/rate-limits.js";
import { invariant } from "../../../domain/call/service-error.js";
import type {
  Admission,
  AdmitRequest,
  Ledger,
  LostRequest,
  RefusedRequest,
  Settled,
  Settlement,
  WindowUse,
} from "../../../domain/metering/ledger.js";
import {
  openDeliveriesMax as defaultOpenMax,
  waitingEventsMax as defaultWaitingMax,
} from "../../../domain/webhooks/delivery-queue.js";
import { BoundedMap } from "../../../lib/collections.js";
import { backgroundTimeoutMs, lookUpTimeoutMs } from "../connection/client.js";
import { keySpace, shardCount } from "../connection/key-space.js";
import { atStoreHour, type ScriptRunner } from "../connection/scripts.js";
import { AcknowledgedSettlements } from "./acknowledged.js";
import { decodeAdmission, encodeAdmissions, nameOfOwner, UnansweredAdmissions } from "./admissions.js";
import { Batches, KeyList, ledgerScripts, TurnBatch } from "./batches.js";
import { decodeSettled, encodeSettlements, LedgerLines, type SettleAnswer, type SettleItem } from "./settlements.js";

/**
 * Timeout of admissions. It is short, because an admission delays the first token; afterwards the process decides by local
 * limits (state RL-16).
 */
const admitTimeoutMs = 50;
/** Timeout of settlements. A settlement that takes longer is written to the spool. */
const settleTimeoutMs = 250;
const timeoutMs = 250;
/** Maximum number of requests whose leases one call renews. */
const renewMax = 64;
/** Maximum number of requests with an expired lease that one call finds. */
const sweepMax = 1_000;
const listeningMax = 10_000;
/** Number of settlements that are sent again in parallel. */
const againMax = 64;
/** Pause after a failed attempt to send settlements again. */
const againEveryMs = 250;
/** Hour argument of scripts whose keys contain no period. */
const noHour = -1;

export interface RedisLedgerDeps {
  readonly runner: ScriptRunner;
  /** Whether a server may be replaced by one that lacks acknowledged settlements; default: false. */
  readonly canBeReplaced?: boolean;
  /** Called with each shard where a settlement wrote an event, and the script's `next_due` of the shard. */
  readonly onDeliveries?: (shard: number, nextDue: unknown) => void;
  /** Maximum number of open deliveries of an account; default 1,000,000. */
  readonly openDeliveriesMax?: number;
  /** Maximum number of events of an account whose deliveries are not created yet; default 100,000. */
  readonly waitingEventsMax?: number;
}

/**
 * The ledger in Redis: each operation is one Lua script on the shard of its account, and the admissions and settlements of
 * one turn of the event loop are sent to a shard in one call.
 *
 * A call that timed out may have been executed nevertheless. An admission is then reverted, because its request is rejected
 * or runs under local limits; its charges on rate limit windows expire with the windows. The other operations are
 * idempotent by request id.
 */
export class RedisLedger implements Ledger {
  readonly #runner: ScriptRunner;
  readonly #lines = new LedgerLines();
  readonly #admissions: Batches<AdmitRequest, Admission>;
  readonly #settlements: Batches<SettleItem, SettleAnswer>;
  readonly #backgroundSettlements: Batches<SettleItem, SettleAnswer>;
  readonly #unanswered: UnansweredAdmissions;
  readonly #onDeliveries: (shard: number, nextDue: unknown) => void;
  readonly #openDeliveriesMax: number;
  readonly #waitingEventsMax: number;
  /**
   * Scopes and budgets of the requests that this process admitted, until they are settled. A process that settles them
   * after a crash uses their account, key and model instead.
   */
  readonly #admitted = new Map<string, Pick<AdmitRequest, "scopes" | "budgets">>();

  /** Null if no server can be replaced by another one. */
  readonly #acknowledged: AcknowledgedSettlements | null;
  #sendingAgain: Promise<void> = Promise.resolve();
  #isClosed = false;

  /** Accounts with a receiver for their last events: their next settlements include the text of the event. */
  readonly #listening = new BoundedMap<string, true>(listeningMax);

  constructor(deps: RedisLedgerDeps) {
    const { runner, onDeliveries = () => {} } = deps;
    this.#runner = runner;
    this.#onDeliveries = onDeliveries;
    this.#acknowledged = deps.canBeReplaced === true ? new AcknowledgedSettlements() : null;
    this.#openDeliveriesMax = deps.openDeliveriesMax ?? defaultOpenMax;
    this.#waitingEventsMax = deps.waitingEventsMax ?? defaultWaitingMax;
    const turn = new TurnBatch((send) => runner.client.together(send));
    this.#admissions = new Batches(turn, (shard, requests) => this.#admitAll(shard, requests));
    this.#settlements = new Batches(turn, (shard, items) => this.#settleAll(shard, items, settleTimeoutMs));
    this.#backgroundSettlements = new Batches(turn, (shard, items) =>
      this.#settleAll(shard, items, backgroundTimeoutMs),
    );
    this.#unanswered = new UnansweredAdmissions(runner, turn);
  }

  async admit(request: AdmitRequest): Promise<Admission> {
    try {
      const admission = await this.#admissions.ask(keySpace.shardOf(request.account).index, request);
      this.#unanswered.answered(request.requestId);
      return admission;
    } catch (cause) {
      this.#unanswered.note(request);
      throw cause;
    }
  }

  async settle(settlement: Settlement, inBackground = false): Promise<Settled> {
    const settled = await this.#settleOnce(settlement, inBackground);
    const { time } = this.#runner;
    this.#acknowledged?.keep({ ...settlement, endedAtMs: settlement.endedAtMs ?? time.now() }, time.monotonic());
    return settled;
  }

  /**
   * Sends the settlements of the last 30 s again, after a replica has replaced a primary. The store ignores the settlements
   * that it has, and receivers get the events of the others with the same ids. Resolves when all are stored, or after
   * `close`.
   */
  settleAgain(): Promise<void> {
    this.#sendingAgain = this.#sendingAgain.then(() => this.#sendAgain(this.#acknowledged?.all() ?? []));
    return this.#sendingAgain;
  }

  close(): void {
    this.#isClosed = true;
  }

  async #sendAgain(settlements: readonly Settlement[]): Promise<void> {
    for (let from = 0; from < settlements.length && !this.#isClosed; ) {
      const some = settlements.slice(from, from + againMax);
      const sent = await Promise.allSettled(some.map((settlement) => this.#settleOnce(settlement, true)));
      // After a failure the whole part is sent again: settlements that were stored are ignored.
      if (sent.every(({ status }) => status === "fulfilled")) from += againMax;
      else await new Promise((resolve) => setTimeout(resolve, againEveryMs).unref());
    }
  }

  async #settleOnce(settlement: Settlement, inBackground: boolean): Promise<Settled> {
    const settlements = inBackground ? this.#backgroundSettlements : this.#settlements;
    const shard = keySpace.shardOf(settlement.account).index;
    const owners = this.#ownersOf(settlement.requestId);
    this.#admitted.delete(settlement.requestId);
    const isListening = this.#listening.get(settlement.account) !== undefined;
    let withEvents: SettleItem["withEvents"] = isListening ? "own" : "none";
    for (;;) {
      const answer = await settlements.ask(shard, { settlement, owners, withEvents });
      if (typeof answer !== "string") return answer;
      if (answer === "again") continue;
      invariant(withEvents !== "all", "a settlement with its events is settled");
      if (settlement.event !== null) this.#listening.set(settlement.account, true);
      withEvents = "all";
    }
  }

  async chargeRefused({ requestId, account, scopes }: RefusedRequest): Promise<void> {
    const shard = keySpace.shardOf(account);
    const windows = scopes.flatMap(({ owner, limits }) =>
      limits.requestsPerMinute === null ? [] : [shard.window(account, owner)],
    );
    if (windows.length === 0) return;
    const keys = [shard.format, shard.live, shard.ended(requestId), shard.refused(requestId), ...windows];
    await this.#runner.run(ledgerScripts.chargeRefused, keys, [requestId], timeoutMs);
  }

  /** Nothing to do: the store records each admission before its request runs. */
  answerBegins(): void {}

  async renew(progress: readonly Progress[], leaseMs: number): Promise<void> {
    const byShard = new Map<number, Progress[]>();
    for (const each of progress) {
      const { index } = keySpace.shardOf(each.account);
      const known = byShard.get(index);
      if (known === undefined) byShard.set(index, [each]);
      else known.push(each);
    }
    await Promise.all([...byShard].map(([index, all]) => this.#renewAll(index, all, leaseMs)));
  }

  async sweepLost(max: number, leaseMs: number): Promise<readonly LostRequest[]> {
    await this.#unanswered.takeAllBack();
    const lost: LostRequest[] = [];
    for (let index = 0; index < shardCount && lost.length < max; ) {
      const { format, live, leases } = keySpace.shard(index);
      const atMost = Math.min(max - lost.length, sweepMax);
      const args = [atMost, leaseMs];
      const { rest } = await this.#runner.run(ledgerScripts.sweep, [format, live, leases], args, backgroundTimeoutMs);
      lost.push(...rest.map(decodeLost));
      if (rest.length < sweepMax) index += 1;
    }
    return lost;
  }

  async liveLeases(): Promise<number> {
    const { client, time } = this.#runner;
    const held = await Promise.all(
      Array.from({ length: shardCount }, (_, index) =>
        client.command<number>("ZCOUNT", [keySpace.shard(index).leases, `(${time.now()}`, "+inf"], lookUpTimeoutMs),
      ),
    );
    return held.reduce((sum, each) => sum + each, 0);
  }

  async resetWindow(account: string, owner: LimitOwner): Promise<void> {
    const shard = keySpace.shardOf(account);
    const keys = [shard.format, shard.window(account, owner)];
    await this.#runner.run(ledgerScripts.resetWindow, keys, [], timeoutMs);
  }

  async inspect(account: string, scopes: readonly LimitScope[]): Promise<readonly WindowUse[]> {
    if (scopes.length === 0) return [];
    const shard = keySpace.shardOf(account);
    const windows = scopes.map(({ owner }) => shard.window(account, owner));
    const owners = scopes.map(({ owner }) => nameOfOwner(owner));
    const keys = [shard.format, shard.live, shard.leases, ...windows];
    const { rest } = await this.#runner.run(ledgerScripts.inspect, keys, [account, ...owners], timeoutMs);
    return scopes.map(({ owner }, i) => {
      const [requests, tokens, running] = rest[i] as [number, number, number];
      return { owner, requests, tokens, running };
    });
  }

  async #admitAll(index: number, requests: readonly AdmitRequest[]): Promise<readonly Admission[]> {
    const shard = keySpace.shard(index);
    const hasBudgets = requests.some(({ budgets }) => budgets.length > 0);
    const { nowMs, rest } = await atStoreHour(this.#runner.time.now(), (hour, atMs) => {
      const { keys, items } = encodeAdmissions(shard, requests, atMs);
      return this.#runner.run(ledgerScripts.admit, keys, [hasBudgets ? hour : noHour, items], admitTimeoutMs);
    });
    const answers = decodeAnswers(rest);
    return requests.map((request, i) => {
      const admission = decodeAdmission(request, answers[i], nowMs);
      if (admission.admitted) this.#noteAdmitted(request);
      return admission;
    });
  }

  async #settleAll(index: number, items: readonly SettleItem[], timeoutMs: number): Promise<readonly SettleAnswer[]> {
    const shard = keySpace.shard(index);
    const endsNow = items.some(({ settlement }) => settlement.endedAtMs === null);
    const { rest } = await atStoreHour(this.#runner.time.now(), (hour, atMs) => {
      const encoded = encodeSettlements(shard, this.#lines, items, atMs);
      const bounds = [this.#openDeliveriesMax, this.#waitingEventsMax];
      const args = [endsNow ? hour : noHour, encoded.lines, encoded.items, ...bounds];
      return this.#runner.run(ledgerScripts.settle, encoded.keys, args, timeoutMs);
    });
    const [, nextDue] = rest;
    if (nextDue !== undefined) this.#onDeliveries(index, nextDue);
    return decodeAnswers(rest).map(decodeSettled);
  }

  async #renewAll(index: number, progress: readonly Progress[], leaseMs: number): Promise<void> {
    const shard = keySpace.shard(index);
    for (let from = 0; from < progress.length; from += renewMax) {
      const keys = new KeyList([shard.format, shard.live, shard.leases]);
      const items = progress
        .slice(from, from + renewMax)
        .map(({ requestId, account, promptTokens, completionTokens }) => [
          requestId,
          promptTokens,
          completionTokens,
          this.#countedOwnersOf(requestId).map((owner) => keys.indexOf(shard.running(account, owner))),
        ]);
      await this.#runner.run(ledgerScripts.renew, keys.names, [leaseMs, JSON.stringify(items)], backgroundTimeoutMs);
    }
  }

  #noteAdmitted({ requestId, scopes, budgets }: AdmitRequest): void {
    if (scopes.length + budgets.length > 0) this.#admitted.set(requestId, { scopes, budgets });
  }

  #ownersOf(requestId: string): readonly LimitOwner[] {
    const admitted = this.#admitted.get(requestId);
    if (admitted === undefined) return [];
    return [...admitted.scopes.map(({ owner }) => owner), ...admitted.budgets.map(({ scope }) => scope)];
  }

  /** Owners with a concurrency limit; their sets contain the running request. */
  #countedOwnersOf(requestId: string): readonly LimitOwner[] {
    const scopes = this.#admitted.get(requestId)?.scopes ?? [];
    return scopes.filter(({ limits }) => limits.concurrency !== null).map(({ owner }) => owner);
  }
}

/** The answers of one call are one JSON text, because the client's own decoder takes a microsecond for each value. */
function decodeAnswers(rest: readonly unknown[]): readonly unknown[] {
  return JSON.parse(rest[0] as string) as readonly unknown[];
}

type LostAnswer = [
  requestId: string,
  account: string,
  key: string,
  model: string,
  operation: Operation,
  admittedAtMs: number,
  promptTokens: number,
  completionTokens: number,
];

function decodeLost(found: unknown): LostRequest {
  const [requestId, account, key, model, operation, admittedAtMs, promptTokens, completionTokens] = found as LostAnswer;
  return { requestId, account, keyId: key || null, model, operation, admittedAtMs, promptTokens, completionTokens };
}
