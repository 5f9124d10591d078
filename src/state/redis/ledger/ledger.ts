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
import { openDeliveriesMax } from "../../../domain/webhooks/delivery-queue.js";
import { BoundedMap } from "../../../lib/bounded-collections.js";
import type { RedisClient } from "../connection/client.js";
import { createKeySpace, type KeySpace, shardCount } from "../connection/key-space.js";
import type { StoreTime } from "../connection/store-time.js";
import { decodeAdmission, encodeAdmissions, nameOfOwner, UnansweredAdmissions } from "./admissions.js";
import { Batches, KeyList, TurnBatch } from "./batches.js";
import { atStoreHour, ledgerScripts, ScriptRunner } from "./scripts.js";
import { decodeSettled, encodeSettlements, LedgerLines, type SettleAnswer, type SettleItem } from "./settlements.js";

/** An admission stands in front of the first token: whoever asks decides alone after this long (state RL-16). */
const admitTimeoutMs = 50;
/** The spool takes a settlement that takes longer. */
const settleTimeoutMs = 250;
const timeoutMs = 250;
/** Requests that one call renews. */
const renewMax = 64;
/** Requests that one call finds. */
const sweepMax = 1_000;
const listeningMax = 10_000;
/** For scripts whose keys name no period. */
const noHour = -1;

export interface RedisLedgerDeps {
  readonly client: RedisClient;
  readonly storeTime: StoreTime;
  /** Is told of each shard where a settlement has made deliveries; `nextDue` is what the script says of the shard. */
  readonly onDeliveries?: (shard: number, nextDue: unknown) => void;
  /** Open deliveries that an account may have; default 1,000,000. */
  readonly openDeliveriesMax?: number;
}

/**
 * The ledger in Redis: each verb is one Lua script on the shard of its account, and what is asked for in one turn of the
 * event loop goes to a shard in one call.
 *
 * A call that timed out may have run nevertheless. An admission is taken back, for its request is refused or runs under
 * other limits; what it took from windows leaves with them. All others are told apart by their request id when they are
 * repeated.
 */
export class RedisLedger implements Ledger {
  readonly #space: KeySpace;
  readonly #time: StoreTime;
  readonly #client: RedisClient;
  readonly #runner: ScriptRunner;
  readonly #lines: LedgerLines;
  readonly #admissions: Batches<AdmitRequest, Admission>;
  readonly #settlements: Batches<SettleItem, SettleAnswer>;
  readonly #unanswered: UnansweredAdmissions;
  readonly #onDeliveries: (shard: number, nextDue: unknown) => void;
  readonly #openDeliveriesMax: number;
  /**
   * What requests were admitted under here, until they are settled. Another process, which settles them when this one
   * has died, has to do with their account, key and model.
   */
  readonly #admitted = new Map<string, Pick<AdmitRequest, "scopes" | "budgets">>();

  /** Accounts whose events had a receiver: the next ones come with their texts at once. */
  readonly #listening = new BoundedMap<string, true>(listeningMax);

  constructor(deps: RedisLedgerDeps) {
    const { client, storeTime } = deps;
    this.#client = client;
    this.#time = storeTime;
    this.#onDeliveries = deps.onDeliveries ?? (() => {});
    this.#openDeliveriesMax = deps.openDeliveriesMax ?? openDeliveriesMax;
    this.#space = createKeySpace(client.prefix);
    this.#runner = new ScriptRunner(client, storeTime);
    this.#lines = new LedgerLines(this.#space);
    const turn = new TurnBatch((send) => client.together(send));
    this.#admissions = new Batches(turn, (shard, requests) => this.#admitAll(shard, requests));
    this.#settlements = new Batches(turn, (shard, items) => this.#settleAll(shard, items));
    this.#unanswered = new UnansweredAdmissions(this.#space, this.#runner, turn);
  }

  async admit(request: AdmitRequest): Promise<Admission> {
    try {
      const admission = await this.#admissions.ask(this.#space.shardOf(request.account).index, request);
      this.#unanswered.answered(request.requestId);
      return admission;
    } catch (cause) {
      this.#unanswered.note(request);
      throw cause;
    }
  }

  async settle(settlement: Settlement): Promise<Settled> {
    const shard = this.#space.shardOf(settlement.account).index;
    const owners = this.#ownersOf(settlement.requestId);
    this.#admitted.delete(settlement.requestId);
    const isListening = this.#listening.get(settlement.account) !== undefined;
    let withEvents: SettleItem["withEvents"] = isListening ? "own" : "none";
    for (;;) {
      const answer = await this.#settlements.ask(shard, { settlement, owners, withEvents });
      if (typeof answer !== "string") return answer;
      if (answer === "again") continue;
      invariant(withEvents !== "all", "a settlement that brought its events is settled");
      if (settlement.event !== null) this.#listening.set(settlement.account, true);
      withEvents = "all";
    }
  }

  async chargeRefused({ requestId, account, scopes }: RefusedRequest): Promise<void> {
    const shard = this.#space.shardOf(account);
    const windows = scopes.flatMap(({ owner, limits }) =>
      limits.requestsPerMinute === null ? [] : [shard.window(account, owner)],
    );
    if (windows.length === 0) return;
    const keys = [shard.format, shard.live, shard.ended(requestId), shard.refused(requestId), ...windows];
    await this.#runner.run(ledgerScripts.chargeRefused, keys, [requestId], timeoutMs);
  }

  async renew(progress: readonly Progress[], leaseMs: number): Promise<void> {
    const byShard = new Map<number, Progress[]>();
    for (const each of progress) {
      const { index } = this.#space.shardOf(each.account);
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
      const { format, live, leases } = this.#space.shard(index);
      const atMost = Math.min(max - lost.length, sweepMax);
      const { rest } = await this.#runner.run(
        ledgerScripts.sweep,
        [format, live, leases],
        [atMost, leaseMs],
        timeoutMs,
      );
      lost.push(...rest.map(decodeLost));
      if (rest.length < sweepMax) index += 1;
    }
    return lost;
  }

  async liveLeases(): Promise<number> {
    const held = await Promise.all(
      Array.from({ length: shardCount }, (_, index) =>
        this.#client.command<number>(
          "ZCOUNT",
          [this.#space.shard(index).leases, `(${this.#time.now()}`, "+inf"],
          timeoutMs,
        ),
      ),
    );
    return held.reduce((sum, each) => sum + each, 0);
  }

  async resetWindow(account: string, owner: LimitOwner): Promise<void> {
    const shard = this.#space.shardOf(account);
    const keys = [shard.format, shard.window(account, owner)];
    await this.#runner.run(ledgerScripts.resetWindow, keys, [], timeoutMs);
  }

  async inspect(account: string, scopes: readonly LimitScope[]): Promise<readonly WindowUse[]> {
    if (scopes.length === 0) return [];
    const shard = this.#space.shardOf(account);
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
    const shard = this.#space.shard(index);
    const hasBudgets = requests.some(({ budgets }) => budgets.length > 0);
    const { nowMs, rest } = await atStoreHour(this.#time.now(), (hour, atMs) => {
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

  async #settleAll(index: number, items: readonly SettleItem[]): Promise<readonly SettleAnswer[]> {
    const shard = this.#space.shard(index);
    const endsNow = items.some(({ settlement }) => settlement.endedAtMs === null);
    const { rest } = await atStoreHour(this.#time.now(), (hour, atMs) => {
      const encoded = encodeSettlements(shard, this.#lines, items, atMs);
      const args = [endsNow ? hour : noHour, encoded.lines, encoded.items, this.#openDeliveriesMax];
      return this.#runner.run(ledgerScripts.settle, encoded.keys, args, settleTimeoutMs);
    });
    const [, nextDue] = rest;
    if (nextDue !== undefined) this.#onDeliveries(index, nextDue);
    return decodeAnswers(rest).map(decodeSettled);
  }

  async #renewAll(index: number, progress: readonly Progress[], leaseMs: number): Promise<void> {
    const shard = this.#space.shard(index);
    for (let from = 0; from < progress.length; from += renewMax) {
      const keys = new KeyList([shard.format, shard.live, shard.leases]);
      const items = progress
        .slice(from, from + renewMax)
        .map(({ requestId, account, promptTokens, completionTokens }) => [
          requestId,
          promptTokens,
          completionTokens,
          this.#countedOwnersOf(requestId).map((owner) => keys.placeOf(shard.running(account, owner))),
        ]);
      await this.#runner.run(ledgerScripts.renew, keys.names, [leaseMs, JSON.stringify(items)], timeoutMs);
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

  /** Owners whose running requests are counted. */
  #countedOwnersOf(requestId: string): readonly LimitOwner[] {
    const scopes = this.#admitted.get(requestId)?.scopes ?? [];
    return scopes.filter(({ limits }) => limits.concurrency !== null).map(({ owner }) => owner);
  }
}

/** Answers to the items of one call come as one JSON text: the client's own decoder takes a microsecond for each value. */
function decodeAnswers(rest: readonly unknown[]): readonly unknown[] {
  return JSON.parse(rest[0] as string) as readonly unknown[];
}

function decodeLost(found: unknown): LostRequest {
  const [requestId, account, key, model, operation, admittedAtMs, promptTokens, completionTokens] = found as [
    string,
    string,
    string,
    string,
    Operation,
    number,
    number,
    number,
  ];
  const keyId = key === "" ? null : key;
  return { requestId, account, keyId, model, operation, admittedAtMs, promptTokens, completionTokens };
}
