import { FirstByteClient } from "./first-byte.js";
import { median, quantile } from "./http-request.js";

/** Creates the request with this number for one side. Numbers are not repeated. */
export type StreamRequest = (number: number) => Buffer;

export interface FirstTokenSide {
  readonly port: number;
  readonly request: StreamRequest;
}

/** `again` is equal to `none`: the difference between these two is the noise of the measurement. */
export interface FirstTokenSides {
  readonly none: FirstTokenSide;
  readonly again: FirstTokenSide;
  readonly embedded: FirstTokenSide;
  readonly redis: FirstTokenSide;
}

type Name = keyof FirstTokenSides;
const names = ["none", "again", "embedded", "redis"] as const satisfies readonly Name[];

/** Times of one block of requests, in milliseconds. */
type Block = Readonly<Record<Name, readonly number[]>>;

/** Differences to `none` in milliseconds: medians of the blocks, and the least and the greatest difference of `again`. */
export interface FirstTokenComparison {
  readonly p50_ms: Readonly<Record<Name, number>>;
  readonly p99_ms: Readonly<Record<Name, number>>;
  readonly spread_p50_ms: readonly [number, number];
  readonly spread_p99_ms: readonly [number, number];
  readonly added: Readonly<Record<"embedded" | "redis", AddedTime>>;
}

export interface AddedTime {
  readonly p50_ms: number;
  readonly p99_ms: number;
  /** Whether both differences are within those of two equal services. */
  readonly inside_spread: boolean;
}

const blocks = 10;
/** Streams before the first block, which are not counted. */
const warmUpStreams = 30;

/** Measures first tokens, one stream at a time, the sides in turn, in blocks. `streams` is the number per side, at least 10. */
export async function compareFirstTokens(sides: FirstTokenSides, streams: number): Promise<FirstTokenComparison> {
  const clients = new Map<Name, FirstByteClient>();
  for (const name of names) clients.set(name, await FirstByteClient.open(sides[name].port));
  let asked = 0;
  const block = async (length: number): Promise<Block> => {
    const times: Record<Name, number[]> = { none: [], again: [], embedded: [], redis: [] };
    for (let i = 0; i < length; i += 1) {
      asked += 1;
      for (const name of orders[asked % orders.length] ?? names) {
        const ms = await clients.get(name)?.ask(sides[name].request(asked));
        if (ms !== undefined) times[name].push(ms);
      }
    }
    return times;
  };
  await block(warmUpStreams);
  const measured: Block[] = [];
  for (let i = 0; i < blocks; i += 1) measured.push(await block(Math.ceil(streams / blocks)));
  for (const client of clients.values()) client.close();
  return compared(measured);
}

/** Each side follows each other one equally often, because remaining work of the previous side affects the next. */
const orders = ordersOf(names);

function ordersOf(sides: readonly Name[]): readonly (readonly Name[])[] {
  if (sides.length === 0) return [[]];
  return sides.flatMap((first) => ordersOf(sides.filter((side) => side !== first)).map((others) => [first, ...others]));
}

function compared(measured: readonly Block[]): FirstTokenComparison {
  const all = (name: Name): readonly number[] => measured.flatMap((block) => block[name]);
  const differences = (name: Name, share: number): readonly number[] =>
    measured.map((block) => quantile(block[name], share) - quantile(block.none, share));
  const spread = (share: number): readonly [number, number] => {
    const same = differences("again", share);
    return [rounded(Math.min(...same)), rounded(Math.max(...same))];
  };
  const spreads = { p50: spread(0.5), p99: spread(0.99) };
  const added = (name: Name): AddedTime => {
    const p50 = rounded(median(differences(name, 0.5)));
    const p99 = rounded(median(differences(name, 0.99)));
    return { p50_ms: p50, p99_ms: p99, inside_spread: p50 <= spreads.p50[1] && p99 <= spreads.p99[1] };
  };
  const each = (share: number): Record<Name, number> => ({
    none: rounded(quantile(all("none"), share)),
    again: rounded(quantile(all("again"), share)),
    embedded: rounded(quantile(all("embedded"), share)),
    redis: rounded(quantile(all("redis"), share)),
  });
  return {
    p50_ms: each(0.5),
    p99_ms: each(0.99),
    spread_p50_ms: spreads.p50,
    spread_p99_ms: spreads.p99,
    added: { embedded: added("embedded"), redis: added("redis") },
  };
}

function rounded(ms: number): number {
  return Number(ms.toFixed(3));
}
