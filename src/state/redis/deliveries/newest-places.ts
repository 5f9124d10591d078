import { invariant } from "../../../domain/call/service-error.js";
import { eventTypes } from "../../../domain/events/event.js";
import { type DeliveryState, deliveryStates } from "../../../domain/webhooks/delivery.js";
import type { DeliveryFilter } from "../../../domain/webhooks/delivery-queue.js";
import { creationBounds } from "./creation-bounds.js";
import { letterOfState } from "./delivery-texts.js";

/** Deliveries that one step looks at: about half a millisecond of the server. */
const lookMax = 200;
/** Steps of one page, over all shards: some tens of milliseconds. Where few deliveries fit, the next page goes on. */
const stepsMax = 50;

/** Where a delivery stands among all: by its creation, and of those made in the same microsecond by its shard. */
interface Position {
  readonly shard: number;
  readonly createdAtUs: number;
}

interface DeliveryPosition extends Position {
  readonly id: string;
}

export interface PlacesRequest {
  readonly shards: readonly number[];
  readonly filter: DeliveryFilter;
  readonly limit: number;
  readonly after: string | null;
  /** Runs `scan-deliveries.lua` on a shard; its answer without the time. */
  scan(shard: number, args: readonly (string | number)[]): Promise<readonly unknown[]>;
}

/** The newest deliveries that the filter lets through, merged from shards that are each looked at in bounded steps. */
export async function placesOf(
  request: PlacesRequest,
): Promise<{ readonly places: readonly DeliveryPosition[]; readonly next: string | null }> {
  const { shards, limit, after } = request;
  const cursor = after === null ? null : parseCursor(after);
  const sources = shards.map((shard) => new Source(request, shard, cursor));
  const places: DeliveryPosition[] = [];
  let steps = 0;
  for (;;) {
    // One more than asked for tells whether there is a next page.
    takeNewest(sources, places, limit + 1);
    const page = places.slice(0, limit);
    const last = page.at(-1);
    if (places.length > limit && last !== undefined) return { places: page, next: cursorOf(last) };
    const open = sources.filter((source) => source.blocks(newestOf(sources)));
    const [first] = open;
    if (first === undefined) return { places: page, next: null };
    if (steps > 0 && steps + open.length > stepsMax) {
      const newest = open.reduce((best, each) => (isNewer(each.border, best.border) ? each : best), first);
      return { places: page, next: cursorOf(newest.border) };
    }
    steps += open.length;
    await Promise.all(open.map((source) => source.look()));
  }
}

/** Takes what is known to come next, up to `max` in all. */
function takeNewest(sources: readonly Source[], places: DeliveryPosition[], max: number): void {
  while (places.length < max) {
    const newest = newestOf(sources);
    if (newest?.first === undefined || sources.some((source) => source.blocks(newest))) return;
    places.push(newest.first);
    newest.drop();
  }
}

/** The source with the newest of all places that are found. */
function newestOf(sources: readonly Source[]): Source | undefined {
  return sources.reduce<Source | undefined>((best, each) => {
    if (each.first === undefined) return best;
    return best?.first === undefined || isNewer(each.first, best.first) ? each : best;
  }, undefined);
}

/** What one shard has, the newest first. */
class Source {
  readonly #request: PlacesRequest;
  readonly #shard: number;
  readonly #least: string;
  /** Bound of the next step; null: there is no more. */
  #most: string | null;
  #found: DeliveryPosition[] = [];
  /** Everything of this shard that comes before it was looked at. */
  border: Position;

  constructor(request: PlacesRequest, shard: number, cursor: Position | null) {
    const { least, most } = creationBounds(request.filter);
    this.#request = request;
    this.#shard = shard;
    this.#least = least;
    this.#most = cursor === null ? most : boundAfter(cursor, shard);
    this.border = { shard, createdAtUs: Number.POSITIVE_INFINITY };
  }

  get first(): DeliveryPosition | undefined {
    return this.#found[0];
  }

  drop(): void {
    this.#found.shift();
  }

  /** Whether it may still have something that comes before the first of the other one. */
  blocks(other: Source | undefined): boolean {
    if (this.first !== undefined || this.#most === null) return false;
    return other?.first === undefined || isNewer(this.border, other.first);
  }

  /** Looks one step further. */
  async look(): Promise<void> {
    const { account, state, endpointId, eventType, replayId } = this.#request.filter;
    const [last, ...found] = (await this.#request.scan(this.#shard, [
      ...[this.#most ?? "", this.#least, lookMax, this.#request.limit + 1, lettersOf(state)],
      ...[account ?? "", endpointId ?? "", replayId ?? ""],
      ...(eventType === null ? eventTypes : [eventType]),
    ])) as readonly string[];
    this.#most = last === undefined || last === "" ? null : `(${last}`;
    if (this.#most !== null) this.border = { shard: this.#shard, createdAtUs: Number(last) };
    for (let i = 0; i < found.length; i += 2) {
      this.#found.push({ id: found[i] ?? "", shard: this.#shard, createdAtUs: Number(found[i + 1]) });
    }
  }
}

function lettersOf(state: DeliveryState | null): string {
  return state === null ? deliveryStates.map((each) => letterOfState[each]).join("") : letterOfState[state];
}

/** On shards with a lower number, what was made in the same microsecond as the last of the page comes after it. */
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
  invariant(createdAtUs !== undefined && shard !== undefined, "a page goes on where the one before ended");
  return { createdAtUs, shard };
}
