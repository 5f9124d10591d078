import { type LookupAddress, lookup as systemLookup } from "node:dns";
import type { LookupFunction } from "node:net";
import { isClosedHost } from "../../../lib/closed-addresses.js";

/** The form of `dns.lookup`, which tests replace. */
type Resolve = (
  host: string,
  options: Parameters<LookupFunction>[1] & { readonly all: true },
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

/**
 * The option `lookup` of a socket. It fails for a host name that resolves to a link-local or metadata address (SEC-17). The
 * socket connects to the address that was checked. Node does not call the function if the host is an address.
 */
export function createCheckedLookup(resolve: Resolve = systemLookup): LookupFunction {
  return (host, options, callback) => {
    resolve(host, { ...options, all: true }, (error, addresses) => {
      if (error !== null) {
        callback(error, "");
        return;
      }
      const [first] = addresses;
      const closed = addresses.find(({ address }) => isClosedHost(address));
      if (closed !== undefined) callback(closedAddress(host, closed.address), "");
      else if (options.all === true) callback(null, addresses);
      else callback(null, first?.address ?? "", first?.family);
    });
  };
}

function closedAddress(host: string, address: string): NodeJS.ErrnoException {
  const message = `${host} resolves to ${address}, a link-local or metadata address, which is never called`;
  return Object.assign(new Error(message), { code: "ERR_CLOSED_ADDRESS" });
}
