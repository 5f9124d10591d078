import { describe, expect, it } from "vitest";
import { parseRedisUrl, redactedRedisUrl } from "../../../../src/state/redis/connection/connect-options.js";

const nobody = { user: null, password: null };

describe("parseRedisUrl", () => {
  it.each([
    ["redis://cache", { kind: "single", addresses: [{ host: "cache", port: 6379 }], database: 0, isTls: false }],
    ["redis://10.0.0.1:7000/3", { kind: "single", addresses: [{ host: "10.0.0.1", port: 7000 }], database: 3 }],
    ["rediss://[::1]:6380/", { kind: "single", addresses: [{ host: "::1", port: 6380 }], isTls: true }],
    [
      "redis+sentinel://a,b:1/main",
      {
        kind: "sentinel",
        primaryName: "main",
        addresses: [
          { host: "a", port: 26379 },
          { host: "b", port: 1 },
        ],
      },
    ],
    ["redis+cluster://a", { kind: "cluster", addresses: [{ host: "a", port: 6379 }] }],
    ["rediss+cluster://a,b", { kind: "cluster", isTls: true }],
    [
      "a:1,b:2",
      {
        kind: "cluster",
        addresses: [
          { host: "a", port: 1 },
          { host: "b", port: 2 },
        ],
      },
    ],
  ])("reads %s", (url, expected) => {
    expect(parseRedisUrl(url)).toMatchObject({ ...nobody, ...expected });
  });

  it.each(["a,b:7000", "redis://a,redis://b:7000", "redis+cluster://a,b:7000"])(
    "reads %s as the nodes of a cluster",
    (url) => {
      const addresses = [
        { host: "a", port: 6379 },
        { host: "b", port: 7000 },
      ];
      expect(parseRedisUrl(url)).toMatchObject({ kind: "cluster", addresses });
    },
  );

  it("reads user and password, escaped or not", () => {
    expect(parseRedisUrl("redis://uis:p%40ss%2Fw@h")).toMatchObject({ user: "uis", password: "p@ss/w" });
    expect(parseRedisUrl("redis://:a:b@c/@h")).toMatchObject({ user: null, password: "a:b@c/" });
    expect(parseRedisUrl("redis+cluster://u:p@a,b")).toMatchObject({ user: "u", password: "p" });
  });

  it.each([
    ["http://secret:secret@host", "is not a Redis URL"],
    ["redis://secret:secret@", "is not a Redis URL"],
    ["redis://secret:secret@a b", "'a b' is not a host"],
    ["redis://u:secret@host/x", "the database 'x' is not a number"],
    ["redis+cluster://u:secret@a,b/1", "a cluster has only the database 0"],
    ["redis+sentinel://u:secret@a,b", "the name of the primary is missing"],
    ["redis://u:sec%ret@host", "write %25"],
  ])("reports the error in %s, without the password", (url, why) => {
    const read = () => parseRedisUrl(url);
    expect(read).toThrow(why);
    expect(read).not.toThrow(/sec(%)?ret/);
  });
});

describe("redactedRedisUrl", () => {
  it("shows the address without the login", () => {
    expect(redactedRedisUrl("rediss://u:p@ss/w@host:1/0")).toBe("rediss://***@host:1/0");
    expect(redactedRedisUrl("u:p@a:1,b:2")).toBe("***@a:1,b:2");
    expect(redactedRedisUrl("redis://host")).toBe("redis://host");
  });
});
