import { describe, expect, it } from "vitest";
import { AttemptLimit, hostOf, networkOf } from "../../../../src/domain/access/attempt-limit.js";

describe("AttemptLimit", () => {
  it("allows the maximum of attempts per caller in the minute that starts with the first", () => {
    const limit = new AttemptLimit(2);
    expect(limit.take("a", 1_000)).toBeNull();
    expect(limit.take("a", 2_000)).toBeNull();
    expect(limit.take("a", 3_000)).toBe(58_000);
    expect(limit.take("b", 3_000)).toBeNull();
    expect(limit.take("a", 61_000)).toBeNull();
    expect(limit.take("a", 61_000)).toBeNull();
    expect(limit.take("a", 61_000)).toBe(60_000);
  });

  it("does not count an attempt that was returned", () => {
    const limit = new AttemptLimit(1);
    for (let turn = 0; turn < 3; turn++) {
      expect(limit.take("a", 0)).toBeNull();
      limit.giveBack("a");
    }
    limit.giveBack("a");
    limit.giveBack("unknown");
    expect(limit.take("a", 0)).toBeNull();
    expect(limit.take("a", 0)).toBe(60_000);
  });
});

describe("hostOf and networkOf", () => {
  it.each([
    ["192.0.2.1", "192.0.2.1", "192.0.2.0/24"],
    ["::ffff:192.0.2.1", "192.0.2.1", "192.0.2.0/24"],
    ["::FFFF:192.0.2.254", "192.0.2.254", "192.0.2.0/24"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64", "2001:db8:1::/48"],
    ["2001:DB8:1:2::6", "2001:db8:1:2::/64", "2001:db8:1::/48"],
    ["2001:0db8:0001:0002:0:0:0:6", "2001:db8:1:2::/64", "2001:db8:1::/48"],
    ["2001:db8::1", "2001:db8:0:0::/64", "2001:db8:0::/48"],
    ["fe80::1%eth0", "fe80:0:0:0::/64", "fe80:0:0::/48"],
    ["::1", "0:0:0:0::/64", "0:0:0::/48"],
    ["::", "0:0:0:0::/64", "0:0:0::/48"],
    ["", "", ""],
  ])("%s is counted as %s and %s", (address, host, network) => {
    expect([hostOf(address), networkOf(address)]).toEqual([host, network]);
  });
});
