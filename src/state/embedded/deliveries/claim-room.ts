import type { AccountShare, SlotShares } from "../../../domain/webhooks/delivery-queue.js";

interface Held {
  slots: number;
  slow: number;
}

/**
 * The number of deliveries that one call may still claim (E-12): first up to the smaller share of each account; when
 * accounts within that share have no more due deliveries, up to the larger one. Without shares only the maximum of the call
 * applies.
 */
export class ClaimRoom {
  /** Number of claims that this call may still take. */
  left: number;
  readonly #shares: SlotShares | undefined;
  readonly #held: Map<string, Held>;
  readonly #slotsOfSlow: ReadonlyMap<string, number>;
  readonly #ahead: ReadonlyMap<string, number>;
  /** Slow endpoints whose queues this call examined. */
  readonly #slow = new Set<string>();
  #slowRoom: number;
  #share: AccountShare;

  constructor(max: number, shares: SlotShares | undefined) {
    this.left = max;
    this.#shares = shares;
    this.#held = new Map(shares?.held.map(([account, slots, slow]) => [account, { slots, slow }]));
    this.#slotsOfSlow = new Map(shares?.slow);
    this.#ahead = new Map(shares?.ahead);
    this.#slowRoom = shares?.slowRoom ?? max;
    this.#share = shares?.contended ?? { slotsMax: max, slowMax: max };
  }

  /**
   * Parameters of the conditions on queues: JSON lists of the accounts that hold all slots of their share, and of their
   * share for slow endpoints; 1 if slow endpoints of all accounts hold all their slots; a JSON list of the endpoints that
   * the worker knows as slow.
   */
  passedOver(): [string, string, number, string] {
    if (this.#shares === undefined) return ["[]", "[]", 0, "[]"];
    const slow = JSON.stringify([...this.#slotsOfSlow.keys()]);
    return [
      JSON.stringify(this.#accounts(false)),
      JSON.stringify(this.#accounts(true)),
      this.#slowRoom > 0 ? 0 : 1,
      slow,
    ];
  }

  /** Notes and returns whether an endpoint is slow: the worker lists it as slow, or it has not answered successfully. */
  noteSlow(endpointId: string, hasNotAnswered: boolean): boolean {
    const isSlow = hasNotAnswered || this.#slotsOfSlow.has(endpointId);
    if (isSlow) this.#slow.add(endpointId);
    return isSlow;
  }

  isSlow(endpointId: string): boolean {
    return this.#slow.has(endpointId);
  }

  /** Maximum number of slots of the endpoint over all workers. */
  slotsOf(endpointId: string, maxInFlight: number): number {
    return this.#ahead.get(endpointId) ?? Math.min(maxInFlight, this.#slotsOfSlow.get(endpointId) ?? maxInFlight);
  }

  /** Number of slots of this worker that an endpoint of the account may still take. */
  of(account: string, isSlow: boolean): number {
    if (this.#shares === undefined) return this.left;
    const { slots, slow } = this.#heldBy(account);
    const room = Math.min(this.left, this.#share.slotsMax - slots);
    return isSlow ? Math.min(room, this.#share.slowMax - slow, this.#slowRoom) : room;
  }

  taken(account: string, isSlow: boolean, count: number): void {
    this.left -= count;
    const { slots, slow } = this.#heldBy(account);
    this.#held.set(account, { slots: slots + count, slow: isSlow ? slow + count : slow });
    if (isSlow) this.#slowRoom -= count;
  }

  /** Switches to the larger share. Returns false if no claims are left or the larger share applies already. */
  widen(): boolean {
    if (this.#shares === undefined || this.left === 0 || this.#share === this.#shares.alone) return false;
    this.#share = this.#shares.alone;
    return true;
  }

  #heldBy(account: string): Held {
    return this.#held.get(account) ?? { slots: 0, slow: 0 };
  }

  /** Accounts that hold all slots of their share, or with `orSlow` at least those for their slow endpoints. */
  #accounts(orSlow: boolean): string[] {
    const { slotsMax, slowMax } = this.#share;
    const isFull = ({ slots, slow }: Held): boolean => slots >= slotsMax || (orSlow && slow >= slowMax);
    return [...this.#held].filter(([, held]) => isFull(held)).map(([account]) => account);
  }
}
