import type { LookupAddress } from "node:dns";
import type { LookupFunction } from "node:net";
import type { AddressRules } from "./address-rules.js";
import type { Resolver } from "./resolver.js";

/** Addresses of a name that are tried: an answer with hundreds would have the service knock at hundreds of hosts. */
const triedMax = 8;

/** A name has an address that is not open. Neither the address nor the name is in it. */
export class BlockedAddress extends Error {
  override readonly name = "BlockedAddress";

  constructor() {
    super("the host has an address that is not open to webhooks");
  }
}

/** Looks a name up; what it gives has passed the rules. */
export class CheckedLookup {
  readonly #resolver: Resolver;
  readonly #rules: AddressRules;

  constructor(resolver: Resolver, rules: AddressRules) {
    this.#resolver = resolver;
    this.#rules = rules;
  }

  /**
   * The first eight addresses. Rejects with BlockedAddress when any of all is closed: the others are suspect, then.
   * Rejects otherwise when the name has none.
   */
  async addresses(name: string): Promise<readonly LookupAddress[]> {
    const found = await this.#resolver.resolve(name);
    if (found.some(({ address }) => !this.#rules.isOpen(address))) throw new BlockedAddress();
    return found.slice(0, triedMax);
  }

  /**
   * For the option `lookup` of a socket: the address that is dialled is one that was checked. Sockets do not call it for
   * a host that is an address by itself. `onAnswer` is told that the waiting for the resolver is over.
   */
  forSocket(onAnswer: () => void): LookupFunction {
    return (name, { all }, callback) => {
      this.addresses(name).then(
        (found) => {
          onAnswer();
          const [first] = found;
          if (all || first === undefined) callback(null, [...found]);
          else callback(null, first.address, first.family);
        },
        (error) => callback(error, []),
      );
    };
  }
}
