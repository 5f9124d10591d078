import { invariant } from "../../../domain/call/service-error.js";
import { eventTypes } from "../../../domain/events/events.js";
import { type Delivery, type DeliveryState, deliveryStates } from "../../../domain/webhooks/delivery.js";
import type {
  DeliveryFilter,
  DeliveryQueue,
  EndpointBacklog,
  WaitingEvents,
} from "../../../domain/webhooks/delivery-queue.js";
import type { Script } from "../connection/client.js";
import { keySpace, shardCount } from "../connection/key-space.js";
import type { ScriptRunner } from "../connection/scripts.js";
import { deliveryScripts, deliveryTimeoutMs } from "./due-shards.js";
import { decodeDelivery, letterOfState } from "./encoding.js";

/** Maximum number of deliveries that one call reads with their attempts. An answer has at most 1.3 MB, usually 20 KB. */
const readMax = 32;
const backlogMax = 1_000;
/** Maximum number of endpoints whose deliveries one call counts, which takes a few milliseconds. */
const countMax = 1_000;

/** Reads of the queue. */
export function createDeliveryLog(
  runner: ScriptRunner,
): Pick<DeliveryQueue, "find" | "payload" | "list" | "backlog" | "due" | "waitingEvents"> {
  const run = async (script: Script, shard: number, args: readonly (string | number)[]): Promise<readonly unknown[]> =>
    (await runner.run(script, [keySpace.shard(shard).format], args, deliveryTimeoutMs)).rest;

  /** Calls all shards in parallel; the commands are sent in one write to the socket. */
  const onAll = <T>(call: (shard: number) => Promise<T>): Promise<T[]> => {
    const calls: Promise<T>[] = [];
    runner.client.together(() => {
      for (const shard of allShards) calls.push(call(shard));
    });
    return Promise.all(calls);
  };

  const read = async (shard: number, ids: readonly string[]): Promise<readonly Delivery[]> => {
    const found: Delivery[] = [];
    for (let from = 0; from < ids.length; from += readMax) {
      const texts = await run(deliveryScripts.find, shard, ids.slice(from, from + readMax));
      found.push(...(texts as readonly string[]).map(decodeDelivery));
    }
    return found;
  };

  /** Open and due deliveries of endpoints from the position `from`. `name`: account and endpoint, joined by a colon. */
  const countsOf = async (shard: number, from: number) => {
    const [which, ...found] = await run(deliveryScripts.backlog, shard, [from, countMax]);
    const counts = (found as [string, number, number, number][]).map(([name, open, due, oldestDueAtMs]) => ({
      name,
      open,
      due,
      oldestDueAtMs: oldestDueAtMs || null,
    }));
    return { counts, isLast: which === "last" };
  };

  const waitingEvents = async (): Promise<WaitingEvents> => {
    const counts = await onAll((shard) => run(deliveryScripts.waitingEvents, shard, [countMax]));
    const events = counts.reduce((sum, [count]) => sum + Number(count), 0);
    const times = counts.flatMap(([, oldestMs]) => (oldestMs === 0 ? [] : [Number(oldestMs)]));
    return { events, oldestAtMs: times.length === 0 ? null : Math.min(...times) };
  };

  return {
    // An id does not name its account, so all shards are searched.
    find: async (id) => (await onAll((shard) => read(shard, [id]))).flat()[0] ?? null,
    async payload(id) {
      const bodies = await onAll((shard) =>
        runner.client.command<string | null>("hget", [keySpace.shard(shard).bodies, id], deliveryTimeoutMs),
      );
      const own = bodies.find((body) => body !== null) ?? null;
      if (own !== null) return own;
      // Deliveries of an event to several endpoints share its body.
      const delivery = (await onAll((shard) => read(shard, [id]))).flat()[0];
      if (delivery === undefined || delivery.isPurged) return null;
      const { bodies: shared } = keySpace.shardOf(delivery.account);
      return runner.client.command<string | null>("hget", [shared, delivery.eventId], deliveryTimeoutMs);
    },
    waitingEvents,
    async list(filter, page) {
      const shards = filter.account === null ? allShards : [keySpace.shardOf(filter.account).index];
      const scan: PositionsRequest["scan"] = (shard, args) => run(deliveryScripts.scan, shard, args);
      const { positions, next } = await positionsOf({ shards, filter, ...page, scan });
      const found = new Map<string, Delivery>();
      await Promise.all(
        shards.map(async (shard) => {
          const ids = positions.filter((position) => position.shard === shard).map(({ id }) => id);
          for (const delivery of await read(shard, ids)) found.set(delivery.id, delivery);
        }),
      );
      // A delivery that was removed in the meantime is left out.
      return { deliveries: positions.flatMap(({ id }) => found.get(id) ?? []), next };
    },
    async backlog() {
      const found = await onAll(async (shard) => (await countsOf(shard, 0)).counts);
      const all = found.flat().map(({ name, open, oldestDueAtMs }): EndpointBacklog => {
        const colon = name.indexOf(":");
        return { account: name.slice(0, colon), endpointId: name.slice(colon + 1), open, oldestDueAtMs };
      });
      const dueAt = ({ oldestDueAtMs }: EndpointBacklog) => oldestDueAtMs ?? Number.MAX_SAFE_INTEGER;
      return all.sort((a, b) => dueAt(a) - dueAt(b)).slice(0, backlogMax);
    },
    async due() {
      const sums = await onAll(async (shard) => {
        let sum = 0;
        for (let from = 0, isLast = false; !isLast; from += countMax) {
          const step = await countsOf(shard, from);
          sum += step.counts.reduce((part, { due }) => part + due, 0);
          isLast = step.isLast;
        }
        return sum;
      });
      return sums.reduce((sum, each) => sum + each, (await waitingEvents()).events);
    },
  };
}

const allShards = Array.from({ length: shardCount }, (_, shard) => shard);

/** Maximum number of deliveries that one step examines, which takes about half a millisecond of the server's time. */
const examinedMax = 200;
/**
 * Maximum number of steps for one page over all shards, which take some tens of milliseconds. The next page continues
 * there.
 */
const stepsMax = 50;

/** Position of a delivery in a list: by time of creation, and by shard if the microsecond is the same. */
interface Position {
  readonly shard: number;
  readonly createdAtUs: number;
}

interface DeliveryPosition extends Position {
  readonly id: string;
}

export interface PositionsRequest {
  readonly shards: readonly number[];
  readonly filter: DeliveryFilter;
  readonly limit: number;
  readonly after: string | null;
  /** Runs `scan-deliveries.lua` on a shard; its answer without the time. */
  scan(shard: number, args: readonly (string | number)[]): Promise<readonly unknown[]>;
}

/** The newest deliveries that match the filter, merged from shards that are each read in bounded steps. */
export async function positionsOf(
  request: PositionsRequest,
): Promise<{ readonly positions: readonly DeliveryPosition[]; readonly next: string | null }> {
  const { shards, limit, after } = request;
  const cursor = after === null ? null : parseCursor(after);
  const sources = shards.map((shard) => new Source(request, shard, cursor));
  const positions: DeliveryPosition[] = [];
  let steps = 0;
  for (;;) {
    // One more than requested shows whether there is a next page.
    takeNewest(sources, positions, limit + 1);
    const page = positions.slice(0, limit);
    const last = page.at(-1);
    if (positions.length > limit && last !== undefined) return { positions: page, next: cursorOf(last) };
    const open = sources.filter((source) => source.blocks(newestOf(sources)));
    const [first] = open;
    if (first === undefined) return { positions: page, next: null };
    if (steps > 0 && steps + open.length > stepsMax) {
      const newest = open.reduce((best, each) => (isNewer(each.border, best.border) ? each : best), first);
      return { positions: page, next: cursorOf(newest.border) };
    }
    steps += open.length;
    await Promise.all(open.map((source) => source.step()));
  }
}

/** Appends deliveries to `positions` while the next one in the order is known, until there are `max`. */
function takeNewest(sources: readonly Source[], positions: DeliveryPosition[], max: number): void {
  while (positions.length < max) {
    const newest = newestOf(sources);
    const [first] = newest?.found ?? [];
    if (newest === undefined || first === undefined || sources.some((source) => source.blocks(newest))) return;
    positions.push(first);
    newest.found.shift();
  }
}

/** The source with the newest delivery found. */
function newestOf(sources: readonly Source[]): Source | undefined {
  return sources.reduce<Source | undefined>((best, each) => {
    if (each.found[0] === undefined) return best;
    return best?.found[0] === undefined || isNewer(each.found[0], best.found[0]) ? each : best;
  }, undefined);
}

/** Deliveries of one shard, the newest first. */
class Source {
  readonly found: DeliveryPosition[] = [];
  /** All deliveries of this shard that are newer than this position were examined. */
  border: Position;
  readonly #request: PositionsRequest;
  readonly #least: string;
  /**
   * Newest creation time that the next step may return, as a bound of the sorted set; null: the shard has no more
   * deliveries.
   */
  #most: string | null;

  constructor(request: PositionsRequest, shard: number, cursor: Position | null) {
    const { least, most } = creationBounds(request.filter);
    this.#request = request;
    this.#least = least;
    this.#most = cursor === null ? most : boundAfter(cursor, shard);
    this.border = { shard, createdAtUs: Number.POSITIVE_INFINITY };
  }

  /** Whether this shard may still have a delivery that is newer than the first one found on the other shard. */
  blocks(other: Source | undefined): boolean {
    if (this.found.length > 0 || this.#most === null) return false;
    return other?.found[0] === undefined || isNewer(this.border, other.found[0]);
  }

  /** Reads one more step. */
  async step(): Promise<void> {
    const { shard } = this.border;
    const { account, state, endpointId, eventType, replayId } = this.#request.filter;
    const [last, ...found] = (await this.#request.scan(shard, [
      ...[this.#most ?? "", this.#least, examinedMax, this.#request.limit + 1, lettersOf(state)],
      ...[account ?? "", endpointId ?? "", replayId ?? ""],
      ...(eventType === null ? eventTypes : [eventType]),
    ])) as readonly string[];
    this.#most = last === undefined || last === "" ? null : `(${last}`;
    if (this.#most !== null) this.border = { shard, createdAtUs: Number(last) };
    for (let i = 0; i < found.length; i += 2) {
      this.found.push({ id: found[i] ?? "", shard, createdAtUs: Number(found[i + 1]) });
    }
  }
}

function lettersOf(state: DeliveryState | null): string {
  return state === null ? deliveryStates.map((each) => letterOfState[each]).join("") : letterOfState[state];
}

/**
 * Upper bound of the next page on a shard. Deliveries of the same microsecond are ordered by shard, so shards with a
 * lower number include it.
 */
function boundAfter({ createdAtUs, shard: last }: Position, shard: number): string {
  return shard < last ? String(createdAtUs) : `(${createdAtUs}`;
}

function isNewer(a: Position, b: Position): boolean {
  return a.createdAtUs === b.createdAtUs ? a.shard > b.shard : a.createdAtUs > b.createdAtUs;
}

function cursorOf({ createdAtUs, shard }: Position): string {
  return `${createdAtUs}-${shard}`;
}

function parseCursor(text: string): Position {
  const [createdAtUs, shard] = text.split("-").map(Number);
  invariant(createdAtUs !== undefined && shard !== undefined, "a page continues where the previous one ended");
  return { createdAtUs, shard };
}

/** A range of creations in µs, as bounds of a sorted set. Null: without end on that side. */
export function creationBounds(range: { readonly fromMs: number | null; readonly toMs: number | null }): {
  readonly least: string;
  readonly most: string;
} {
  return {
    least: range.fromMs === null ? "-inf" : String(range.fromMs * 1_000),
    most: range.toMs === null ? "+inf" : `(${range.toMs * 1_000}`,
  };
}
