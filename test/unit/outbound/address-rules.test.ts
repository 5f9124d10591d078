import fc from "fast-check";
import ipaddr from "ipaddr.js";
import { describe, expect, it } from "vitest";
import { AddressRules } from "../../../src/lib/address-rules.js";

const strict = new AddressRules([]);

const hex = (bytes: readonly number[]) => ipaddr.fromByteArray([...bytes]).toString();
const zeros = (count: number): number[] => new Array<number>(count).fill(0);

/** Every form in which IPv6 embeds an IPv4 address. */
const carriers: Readonly<Record<string, (v4: readonly number[]) => string>> = {
  mapped: (v4) => hex([...zeros(10), 255, 255, ...v4]),
  compatible: (v4) => hex([...zeros(12), ...v4]),
  translated: (v4) => hex([...zeros(8), 255, 255, 0, 0, ...v4]),
  NAT64: (v4) => hex([0, 0x64, 0xff, 0x9b, ...zeros(8), ...v4]),
  "local NAT64, 96 bits": (v4) => hex([0, 0x64, 0xff, 0x9b, 0, 1, ...zeros(6), ...v4]),
  "local NAT64, 48 bits": ([a = 0, b = 0, c = 0, d = 0]) =>
    hex([0, 0x64, 0xff, 0x9b, 0, 1, a, b, 0, c, d, ...zeros(5)]),
  "6to4": (v4) => hex([0x20, 2, ...v4, ...zeros(10)]),
  "Teredo server": (v4) => hex([0x20, 1, 0, 0, ...v4, ...zeros(4), 0xf7, 0xf7, 0xf7, 0xf7]),
  "Teredo client": (v4) => hex([0x20, 1, 0, 0, 8, 8, 8, 8, ...zeros(4), ...v4.map((byte) => byte ^ 255)]),
};

const ipv4 = fc.tuple(fc.nat(255), fc.nat(255), fc.nat(255), fc.nat(255));

describe("AddressRules", () => {
  it.each([
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "172.15.255.255",
    "172.32.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "169.253.255.255",
    "223.255.255.255",
    "2606:4700::1111",
    "2a00:1450::1",
    "2001:4860:4860::8888",
  ])("%s is public", (address) => {
    expect(strict.isOpen(address)).toBe(true);
  });

  it.each(["", "localhost", "1.2.3", "1.2.3.4.5", "01.2.3.4", "::1%lo", "fe80::1%eth0", "[::1]", "1.1.1.1/8"])(
    "text that is not a plain address is blocked: %s (WH-39)",
    (address) => {
      expect(strict.isOpen(address)).toBe(false);
    },
  );

  it("an IPv6 address that embeds a blocked IPv4 address is blocked (SEC-14, WH-39)", () => {
    fc.assert(
      fc.property(ipv4, fc.constantFrom(...Object.keys(carriers)), (v4, name) => {
        const carried = carriers[name]?.(v4) ?? "";
        return strict.isOpen(v4.join(".")) || !strict.isOpen(carried);
      }),
      { numRuns: 2_000 },
    );
  });

  it("an IPv6 address with an embedded public IPv4 address is public only in the forms that denote the IPv4 address itself", () => {
    const open = Object.keys(carriers).filter((name) => strict.isOpen(carriers[name]?.([1, 1, 1, 1]) ?? ""));
    expect(open).toEqual(["mapped", "NAT64"]);
  });

  it("every address outside of the public ranges is blocked (SEC-14)", () => {
    const bytes = fc.array(fc.nat(255), { minLength: 16, maxLength: 16 });
    fc.assert(
      fc.property(bytes, ([first = 0, ...rest]) => {
        const isHandedOut = first >> 5 === 1;
        return isHandedOut || !strict.isOpen(hex([first, ...rest])) || carriesPublic([first, ...rest]);
      }),
      { numRuns: 2_000 },
    );
  });

  it("a listed range is allowed, in every spelling, and adjacent addresses are not (WH-41)", () => {
    const lab = new AddressRules(["10.1.0.0/16", "fd12:3456::/32", "127.0.0.1/32"]);
    expect(["10.1.2.3", "::ffff:10.1.2.3", "fd12:3456::1", "127.0.0.1"].map((one) => lab.isOpen(one))).toEqual([
      true,
      true,
      true,
      true,
    ]);
    const beside = [
      "10.2.0.1",
      "10.0.255.255",
      "fd12:3457::1",
      "127.0.0.2",
      "::1",
      "2002:a01:203::",
      "::ffff:10.2.0.1",
      "::10.1.2.3",
    ];
    expect(beside.filter((one) => lab.isOpen(one))).toEqual([]);
  });

  it("link-local and metadata addresses stay blocked, also inside a listed range and embedded in IPv6 (WH-41)", () => {
    const all = new AddressRules(["0.0.0.0/0", "::/0"]);
    expect(all.isOpen("192.168.0.1")).toBe(true);
    const closed = [
      "169.254.169.254",
      "169.254.0.1",
      "100.100.100.200",
      "fe80::1",
      "febf:ffff::1",
      "fd00:ec2::254",
      "fd20:ce::254",
    ];
    const carried = Object.values(carriers).map((carry) => carry([169, 254, 169, 254]));
    expect([...closed, ...carried].filter((one) => all.isOpen(one))).toEqual([]);
  });

  it("a range that cannot be parsed is an error", () => {
    expect(() => new AddressRules(["10.0.0.0/33"])).toThrow();
  });
});

function carriesPublic(bytes: readonly number[]): boolean {
  const text = hex(bytes);
  return text.startsWith("::ffff:") || text.startsWith("64:ff9b::");
}
