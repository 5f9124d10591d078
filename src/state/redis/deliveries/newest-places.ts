import { invariant } from "../../../domain/service-error.js";
import { type DeliveryState, deliveryStates } from "../../../domain/webhooks/delivery.js";
import type { DeliveryFilter } from "../../../domain/webhooks/delivery-queue.js";
import { creationBounds } from "./creation-bounds.js";
import { letterOfState } from "./delivery-texts.js";

/** Deliveries that one step looks at: about half a millisecond of the server. */
const lookMax = 200;

/** Where a delivery stands among all: by its creation, and of those made in the same microsecond by its shard. */
interface Place {
  readonly id: string;
  readonly shard: number;
  readonly createdAtUs: number;
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
): Promise<{ readonly places: readonly Place[]; readonly next: string | null }> {
  const { shards, limit, after } = request;
  const cursor = after === null ? null : parseCursor(after);
  const sources = shards.map((shard) => new Source(request, shard, cursor));
  const places: Place[] = [];
  // One more than asked for tells whether there is a next page.
  while (places.length <= limit) {
    await Promise.all(sources.map((source) => source.fill()));
    const newest = sources.reduce((best, each) => (isNewer(each.first, best?.first) ? each : best), sources[0]);
    const place = newest?.take();
    if (place === undefined) break;
    places.push(place);
  }
  const page = places.slice(0, limit);
  const last = page.at(-1);
  return { places: page, next: last !== undefined && places.length > limit ? cursorOf(last) : null };
}

/** What one shard has, the newest first. */
class Source {
  readonly #request: PlacesRequest;
  readonly #shard: number;
  readonly #least: string;
  /** Bound of the next step; null: there is no more. */
  #most: string | null;
  #found: Place[] = [];

  constructor(request: PlacesRequest, shard: number, cursor: Omit<Place, "id"> | null) {
    const { least, most } = creationBounds(request.filter);
    this.#request = request;
    this.#shard = shard;
    this.#least = least;
    this.#most = cursor === null ? most : boundAfter(cursor, shard);
  }

  get first(): Place | undefined {
    return this.#found[0];
  }

  take(): Place | undefined {
    return this.#found.shift();
  }

  /** Looks on until there is a first one, or no more. */
  async fill(): Promise<void> {
    while (this.#found.length === 0 && this.#most !== null) {
      const { account, state, endpointId, eventType, replayId } = this.#request.filter;
      const [last, ...found] = (await this.#request.scan(this.#shard, [
        ...[this.#most, this.#least, lookMax, this.#request.limit + 1, lettersOf(state)],
        ...[account ?? "", endpointId ?? "", eventType ?? "", replayId ?? ""],
      ])) as readonly string[];
      this.#most = last === undefined || last === "" ? null : `(${last}`;
      for (let i = 0; i < found.length; i += 2) {
        this.#found.push({ id: found[i] ?? "", shard: this.#shard, createdAtUs: Number(found[i + 1]) });
      }
    }
  }
}

function lettersOf(state: DeliveryState | null): string {
  return state === null ? deliveryStates.map((each) => letterOfState[each]).join("") : letterOfState[state];
}

/** On shards with a lower number, what was made in the same microsecond as the last of the page comes after it. */
function boundAfter({ createdAtUs, shard: last }: Omit<Place, "id">, shard: number): string {
  return shard < last ? String(createdAtUs) : `(${createdAtUs}`;
}

function isNewer(a: Place | undefined, b: Place | undefined): boolean {
  if (a === undefined || b === undefined) return a !== undefined;
  return a.createdAtUs === b.createdAtUs ? a.shard > b.shard : a.createdAtUs > b.createdAtUs;
}

function cursorOf({ createdAtUs, shard }: Place): string {
  return `${createdAtUs}-${shard}`;
}

function parseCursor(text: string): Omit<Place, "id"> {
  const [createdAtUs, shard] = text.split("-").map(Number);
  invariant(createdAtUs !== undefined && shard !== undefined, "a page goes on where the one before ended");
  return { createdAtUs, shard };
}
