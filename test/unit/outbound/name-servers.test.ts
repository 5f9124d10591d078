import { describe, expect, it } from "vitest";
import { parseHosts, parseSearchDomains } from "../../../src/outbound/resolver.js";

describe("parseHosts", () => {
  it("finds every name of a line in any case, IPv4 first, and skips comments and lines without an address (E-11)", () => {
    const text = "# 10.0.0.1 no\n::1 A.test b.test\n\t10.0.0.2  a.test # c.test\nnonsense d.test\n";
    expect([...parseHosts(text)]).toEqual([
      [
        "a.test",
        [
          { address: "10.0.0.2", family: 4 },
          { address: "::1", family: 6 },
        ],
      ],
      ["b.test", [{ address: "::1", family: 6 }]],
    ]);
  });
});

describe("parseSearchDomains", () => {
  it("uses the last search list, at most six domains, and none if the file has no list (E-11)", () => {
    expect(parseSearchDomains("domain a.test\nsearch b.test c.test\nnameserver 1.1.1.1\n")).toEqual([
      "b.test",
      "c.test",
    ]);
    expect(parseSearchDomains("search 1 2 3 4 5 6 7")).toHaveLength(6);
    expect(parseSearchDomains("search .\n")).toEqual([]);
    expect(parseSearchDomains("")).toEqual([]);
  });
});
