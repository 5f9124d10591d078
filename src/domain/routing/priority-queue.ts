import { FairQueue, type QueueOwner } from "../../lib/fair-queue.js";
import type { KeyPriority } from "../call/principal.js";

/** Owner of a request that waits for a slot. An owner without a priority, such as the administrator, is in the default class. */
export interface RoutedOwner extends QueueOwner {
  readonly priority?: KeyPriority;
}

/**
 * Number of slots in a row that may go to other classes while a class waits. The default class gets at least every 8th slot,
 * the batch class at least every 16th: its turn comes after 14, because a default request may have its turn first.
 */
const passedMax = { interactive: Number.POSITIVE_INFINITY, default: 7, batch: 14 } as const;

interface PriorityClass<T> {
  readonly queue: FairQueue<T>;
  readonly passedMax: number;
  /** Slots in a row that went to other classes while requests of this one waited. */
  passed: number;
}

/**
 * Queue of the requests that wait for a slot of a model: interactive before default before batch, and within a class fair
 * between accounts and keys. A bound on the slots in a row that go to other classes prevents the starvation of a class.
 */
export class PriorityQueue<T> {
  readonly #classes: readonly PriorityClass<T>[];
  readonly #byPriority: Readonly<Record<KeyPriority, PriorityClass<T>>>;
  size = 0;

  constructor() {
    const create = (priority: KeyPriority): PriorityClass<T> => {
      return { queue: new FairQueue<T>(), passedMax: passedMax[priority], passed: 0 };
    };
    this.#byPriority = { interactive: create("interactive"), default: create("default"), batch: create("batch") };
    const { interactive, default: normal, batch } = this.#byPriority;
    this.#classes = [interactive, normal, batch];
  }

  add(owner: RoutedOwner, item: T): void {
    this.#classOf(owner).queue.add(owner, item);
    this.size += 1;
  }

  remove(owner: RoutedOwner, item: T): void {
    const { queue } = this.#classOf(owner);
    const before = queue.size;
    queue.remove(owner, item);
    this.size += queue.size - before;
  }

  /** Removes and returns the next item that is accepted; undefined if there is none. */
  next(accepts: (item: T) => boolean): T | undefined {
    for (const one of this.#classes) {
      if (one.queue.size === 0 || one.passed < one.passedMax) continue;
      const item = this.#takeOf(one, accepts);
      if (item !== undefined) return item;
    }
    for (const one of this.#classes) {
      const item = one.queue.size === 0 ? undefined : this.#takeOf(one, accepts);
      if (item !== undefined) return item;
    }
    return undefined;
  }

  /** Whether `makeRoomFor` would return an item. */
  canMakeRoomFor(owner: RoutedOwner): boolean {
    const own = this.#classOf(owner);
    return this.#lowestBelow(own) !== null || own.queue.hasHeavier(owner);
  }

  /**
   * Removes and returns the item that is dropped from a full queue so that a request of the key `owner` can wait: the newest
   * item of the key with the most items, in the lowest class below the class of `owner`. If there is none, an item of a key
   * in the same class that has more items than `owner` would have. Null if no item can be dropped, so that the new request
   * has to be rejected.
   */
  makeRoomFor(owner: RoutedOwner): T | null {
    const own = this.#classOf(owner);
    const lower = this.#lowestBelow(own);
    const item = lower === null ? own.queue.newestOfHeaviest(owner) : lower.queue.newestOfLongest();
    if (item !== null) this.size -= 1;
    return item;
  }

  #classOf({ priority = "default" }: RoutedOwner): PriorityClass<T> {
    return this.#byPriority[priority];
  }

  #lowestBelow(own: PriorityClass<T>): PriorityClass<T> | null {
    const lowest = this.#classes.findLast(({ queue }) => queue.size > 0);
    return lowest !== undefined && this.#classes.indexOf(lowest) > this.#classes.indexOf(own) ? lowest : null;
  }

  #takeOf(one: PriorityClass<T>, accepts: (item: T) => boolean): T | undefined {
    const item = one.queue.next(accepts);
    if (item === undefined) return undefined;
    this.size -= 1;
    for (const other of this.#classes) other.passed = other === one || other.queue.size === 0 ? 0 : other.passed + 1;
    return item;
  }
}
