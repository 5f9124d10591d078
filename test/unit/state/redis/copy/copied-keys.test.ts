import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { describeKey } from "../../../../../src/state/redis/copy/copied-keys.js";

/** Keys that only a service writes: sessions, running requests, claims and rate limit windows. */
const ofServices = [
  ...["{k}:sessions", "{k}:session_hashes"],
  ...["live", "leases", "end", "refused", "w", "c", "b", "claims", "in_flight"].map((name) => `{s7}:${name}`),
];

describe("describeKey", () => {
  it("has a description for every key of the driver", () => {
    const sources = ["documents.ts", "connection/key-space.ts"].map((path) =>
      readFileSync(`src/state/redis/${path}`, "utf8"),
    );
    const names = sources.flatMap((text) =>
      [...text.matchAll(/^ \* uis:(\{\w+\}:[a-z_]+)/gm)].map(([, name]) => String(name)),
    );
    expect(names.length).toBeGreaterThan(40);
    const foreign = names.filter((name) => describeKey(`uis:${name}`) === "foreign");
    expect([...new Set(foreign)].sort()).toEqual(ofServices.toSorted());
  });

  it("describes a key of several parts by its first part, and an unknown key as foreign", () => {
    expect(describeKey("uis:{s12}:q:acme:we_1")).toEqual({ type: "zset", kind: "deliveries" });
    expect(describeKey("uis:{s0}:p:acme:key:key_1:2026-11")).toEqual({ type: "hash", kind: "period_sums" });
    expect(describeKey("uis:{k}:copy")).toBe("neutral");
    for (const name of ["uis:{k}:h", "uis:{s1}:keys", "uis:other", "uis:{x}:keys"])
      expect(describeKey(name)).toBe("foreign");
  });
});
