/**
 * A map that never holds more than `sizeMax` entries. Entries that were read or written in the last `sizeMax / 2`
 * distinct uses are kept; older ones are removed, half of the map at a time.
 *
 * Two generations, because the textbook form (delete and set again on use, delete the first on overflow) leaves a hole
 * at the front of the Map for each eviction, and finding the first entry behind the holes took 28 µs with 100,000
 * entries, on the path of every request.
 */
export class BoundedMap<K, V> {
  readonly #generationMax: number;
  #young = new Map<K, V>();
  #old = new Map<K, V>();

  constructor(sizeMax: number) {
    if (!Number.isInteger(sizeMax) || sizeMax < 2) throw new RangeError(`sizeMax must be 2 or more, not ${sizeMax}`);
    this.#generationMax = Math.floor(sizeMax / 2);
  }

  get size(): number {
    return this.#young.size + this.#old.size;
  }

  /** Returns the value of a key. Reading counts as a use. */
  get(key: K): V | undefined {
    const young = this.#young.get(key);
    if (young !== undefined) return young;
    const old = this.#old.get(key);
    if (old !== undefined) this.set(key, old);
    return old;
  }

  /** Whether there is a value. Does not count as a use. */
  has(key: K): boolean {
    return this.#young.has(key) || this.#old.has(key);
  }

  set(key: K, value: V): void {
    this.#old.delete(key);
    this.#young.set(key, value);
    if (this.#young.size <= this.#generationMax) return;
    this.#young.delete(key);
    this.#old = this.#young;
    this.#young = new Map([[key, value]]);
  }

  delete(key: K): boolean {
    return this.#young.delete(key) || this.#old.delete(key);
  }

  /** All entries, the longer unused half first. Entries may be deleted while iterating. */
  *entries(): IterableIterator<[K, V]> {
    yield* this.#old;
    yield* this.#young;
  }
}

/** The bound of a queue, which may change with the use of a budget that the queue shares with others. */
export interface QueueBound {
  /** Whether a queue of this weight is full. An empty queue must not be. */
  isFull(weight: number): boolean;
  /** Called with the weight of every item that enters or leaves the queue. */
  add(weight: number): void;
  remove(weight: number): void;
}

function fixedBound(weightMax: number): QueueBound {
  return { isFull: (weight) => weight >= weightMax, add: () => {}, remove: () => {} };
}

/** Items for one reader, which arrive over time. */
export interface ArrivingItems<T> extends AsyncIterable<T> {
  /** Removes and returns the first item that has arrived; undefined: the iterator must be awaited. */
  takeNow(): T | undefined;
}

/** Number of removed items from which on a queue's array is shortened. */
const shortenedMin = 32;

/**
 * Bounded queue with backpressure for any number of producers and one consumer. `push` never loses an item: a producer that
 * sees `full` awaits `room()` before it continues. A consumer that stops iterating closes the queue and so releases all
 * producers.
 */
export class BoundedQueue<T> implements ArrivingItems<T> {
  readonly #bound: QueueBound;
  #items: ({ readonly item: T; readonly weight: number } | undefined)[] = [];
  #first = 0;
  #weight = 0;
  #closed = false;
  #error: unknown;
  #consumer: (() => void) | undefined;
  #producers: (() => void)[] = [];

  /** A number is the maximum weight in the producer's unit. */
  constructor(bound: number | QueueBound) {
    this.#bound = typeof bound === "number" ? fixedBound(bound) : bound;
  }

  get full(): boolean {
    return !this.#closed && this.#bound.isFull(this.#weight);
  }

  push(item: T, weight: number): void {
    if (this.#closed) return;
    this.#items.push({ item, weight });
    this.#weight += weight;
    this.#bound.add(weight);
    this.#wakeConsumer();
  }

  /** Resolves when the queue is below its bound again, or closed. */
  room(): Promise<void> {
    if (!this.full) return Promise.resolve();
    return new Promise((resolve) => {
      this.#producers.push(resolve);
    });
  }

  /** Ends the queue after the items in it; with an error the consumer's iteration throws it. The first close counts. */
  close(error?: unknown): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#error = error;
    this.#wakeConsumer();
    this.#wakeProducers();
  }

  takeNow(): T | undefined {
    const entry = this.#items[this.#first];
    if (entry === undefined) return undefined;
    this.#drop();
    this.#lose(entry.weight);
    if (this.#producers.length > 0 && !this.full) this.#wakeProducers();
    return entry.item;
  }

  [Symbol.asyncIterator](): AsyncIterator<T> {
    return {
      next: () => this.#next(),
      return: () => {
        this.close();
        this.#items = [];
        this.#first = 0;
        this.#lose(this.#weight);
        return Promise.resolve({ done: true, value: undefined });
      },
    };
  }

  async #next(): Promise<IteratorResult<T>> {
    for (;;) {
      const value = this.takeNow();
      if (value !== undefined) return { done: false, value };
      if (this.#closed) {
        if (this.#error !== undefined) throw this.#error;
        return { done: true, value: undefined };
      }
      await new Promise<void>((resolve) => {
        this.#consumer = resolve;
      });
    }
  }

  #lose(weight: number): void {
    this.#weight -= weight;
    this.#bound.remove(weight);
  }

  /**
   * Removes the first item. The array is shortened by half of its length at least, because shift() on a long array moves all
   * other items. With a slow reader it may never become empty.
   */
  #drop(): void {
    this.#items[this.#first] = undefined;
    this.#first += 1;
    const { length } = this.#items;
    if (this.#first < length && (this.#first < shortenedMin || this.#first * 2 < length)) return;
    this.#items = this.#first < length ? this.#items.slice(this.#first) : [];
    this.#first = 0;
  }

  #wakeConsumer(): void {
    const wake = this.#consumer;
    this.#consumer = undefined;
    wake?.();
  }

  #wakeProducers(): void {
    for (const wake of this.#producers.splice(0)) wake();
  }
}

/** A member of a MemberList. */
export interface Placed {
  /** Index in the list; written by the list only. */
  place: number;
}

/**
 * Unordered members, such as running requests. A member is in one list at most. A Set would be worse where members change with
 * each request: the table that it leaves when it grows keeps all its members alive until a full garbage collection.
 */
export class MemberList<T extends Placed> {
  readonly #members: T[] = [];

  get size(): number {
    return this.#members.length;
  }

  add(member: T): void {
    member.place = this.#members.length;
    this.#members.push(member);
  }

  /** Removes a member. No effect if it is not in the list. */
  delete(member: T): void {
    const { place } = member;
    if (this.#members[place] !== member) return;
    const last = this.#members.pop();
    if (last === undefined || last === member) return;
    this.#members[place] = last;
    last.place = place;
  }

  clear(): void {
    this.#members.length = 0;
  }

  /** A copy of the present members. Members may be deleted while the array is read. */
  all(): readonly T[] {
    return [...this.#members];
  }

  /** Iterates over the members. None may be added or deleted during the iteration. */
  [Symbol.iterator](): IterableIterator<T> {
    return this.#members.values();
  }
}

/**
 * Returns a list of `count` new items. Use it where every request passes: `Array.from({ length: count }, make)` takes half a
 * microsecond more.
 */
export function listOf<T>(count: number, make: (index: number) => T): T[] {
  const items: T[] = [];
  for (let index = 0; index < count; index++) items.push(make(index));
  return items;
}

/** Groups items by key, each group in the order of the items, as `Map.groupBy` does from Node 21 on. */
export function groupBy<T, K>(items: readonly T[], keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}

/** Whether two lists have the same items, compared by `===`, in the same order. */
export function isSameList<T>(a: readonly T[], b: readonly T[]): boolean {
  return a.length === b.length && a.every((item, position) => item === b[position]);
}

/** Size of the budget that all streams of a process share. */
const sharedBytesMax = 16 * 1024 * 1024;
/** What each part of a stream's buffer may hold although the budget is used up: a few tokens, so that every stream goes on. */
const partBytesMin = 1024;

export interface StreamBufferLimits {
  /** Maximum of one part of a stream's buffer. May change at any time. */
  readonly streamBufferBytesMax: number;
}

/**
 * The memory of all streams of a process for data that their readers have not taken. Each part of a stream's buffer may hold
 * at most `streamBufferBytesMax`, and at most what the budget has left: the dynamic threshold of shared-memory switches
 * (Choudhury and Hahne). A few slow readers get large buffers; as more wait, each gets less, and their engines pause earlier.
 */
export class StreamBuffers {
  readonly limits: StreamBufferLimits;
  /** Bytes that all streams hold now; written by StreamBuffer only. */
  bytes = 0;

  constructor(limits: StreamBufferLimits) {
    this.limits = limits;
  }
}

/** The part of the shared budget that one stream uses. After `close`, which its call ensures, it holds nothing. */
export class StreamBuffer {
  readonly #shared: StreamBuffers;
  #bytes = 0;
  #isClosed = false;

  constructor(shared: StreamBuffers) {
    this.#shared = shared;
  }

  /** Whether a part of the buffer with so many bytes must not grow. */
  isFull(partBytes: number): boolean {
    if (partBytes < partBytesMin) return false;
    const { limits, bytes } = this.#shared;
    const { streamBufferBytesMax } = limits;
    // A single stream reaches its maximum, also if that is larger than the budget.
    return partBytes >= Math.min(streamBufferBytesMax, Math.max(sharedBytesMax, 2 * streamBufferBytesMax) - bytes);
  }

  /** Holds `bytes` more. */
  add(bytes: number): void {
    if (this.#isClosed) return;
    this.#bytes += bytes;
    this.#shared.bytes += bytes;
  }

  /** Gives back bytes that were added. */
  remove(bytes: number): void {
    if (this.#isClosed) return;
    this.#bytes -= bytes;
    this.#shared.bytes -= bytes;
  }

  /** Gives back all that the stream holds. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#shared.bytes -= this.#bytes;
  }
}
