import type { LookupAddress } from "node:dns";
import { describe, expect, it } from "vitest";
import { createCheckedLookup } from "../../../../src/engines/openai/connection/checked-lookup.js";

/** The result that a socket gets for a name that resolves to these addresses. */
function lookUp(addresses: readonly string[], all: boolean, failure: Error | null = null) {
  const resolved = addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 }));
  const lookup = createCheckedLookup((_, { all: isAll }, callback) => {
    expect(isAll).toBe(true);
    callback(failure, resolved);
  });
  return new Promise<{ error: Error | null; address: string | LookupAddress[]; family: number | undefined }>((done) => {
    lookup("gpu.internal", { all }, (error, address, family) => done({ error, address, family }));
  });
}

describe("addresses of an upstream's host name", () => {
  it("are passed to the socket in the form that it requests", async () => {
    expect(await lookUp(["10.0.0.5", "fd00::5"], false)).toEqual({ error: null, address: "10.0.0.5", family: 4 });
    const all = await lookUp(["10.0.0.5", "fd00::5"], true);
    expect(all.address).toEqual([
      { address: "10.0.0.5", family: 4 },
      { address: "fd00::5", family: 6 },
    ]);
  });

  it.each(["169.254.169.254", "fe80::1", "fd00:ec2::254", "::ffff:169.254.169.254", "100.100.100.200"])(
    "are not passed to the socket if one is %s (SEC-17)",
    async (closed) => {
      for (const all of [true, false]) {
        const { error, address } = await lookUp(["10.0.0.5", closed], all);
        expect(error?.message).toContain(`gpu.internal resolves to ${closed}, a link-local or metadata address`);
        expect(address).toBe("");
      }
    },
  );

  it("are an error if the lookup fails", async () => {
    const failure = new Error("getaddrinfo ENOTFOUND gpu.internal");
    expect((await lookUp([], true, failure)).error).toBe(failure);
  });
});
