import type { IncomingMessage } from "node:http";
import { describe, expect, it } from "vitest";
import { defaultLimits } from "../../../../src/contract/limits.js";
import { findHeadFault } from "../../../../src/transports/http/listener.js";

type Head = { url?: string; method?: string; httpVersion?: string; lines?: [string, string][] };

function find(
  { url = "/v1/models", method = "GET", httpVersion = "1.1", lines = [["Host", "localhost"]] }: Head,
  hosts: string[] = [],
) {
  const headers: Record<string, string> = {};
  for (const [name, value] of lines) headers[name.toLowerCase()] ??= value;
  const req = { url, method, httpVersion, rawHeaders: lines.flat(), headers } as unknown as IncomingMessage;
  return findHeadFault(req, defaultLimits, hosts)?.code;
}

const host: [string, string] = ["Host", "localhost"];

describe("the head of a request", () => {
  it.each(["Host", "Authorization", "Content-Type", "Content-Length"])("cannot have two %s headers (SEC-4)", (name) => {
    const lines: [string, string][] = [host, [name, "1"], [name.toUpperCase(), "1"]];
    expect(find({ lines })).toBe("invalid_value");
  });

  it("may have other headers repeatedly", () => {
    expect(find({ lines: [host, ["Accept", "a"], ["Accept", "b"]] })).toBeUndefined();
  });

  it.each(["xchunked", "gzip, chunked", "chunked, chunked", "identity", ""])(
    "is refused with the transfer encoding '%s' (SEC-4)",
    (encoding) => {
      expect(find({ lines: [host, ["Transfer-Encoding", encoding]] })).toBe("invalid_value");
    },
  );

  it("may have the transfer encoding chunked (SEC-4)", () => {
    expect(find({ lines: [host, ["Transfer-Encoding", "Chunked"]] })).toBeUndefined();
  });

  it("is refused with an underscore in a header name (SEC-4)", () => {
    expect(find({ lines: [host, ["x_forwarded_for", "1"]] })).toBe("invalid_value");
  });

  it.each(["http://evil.example/v1/models", "v1/models", "*"])("the target %s is refused (SEC-4)", (url) => {
    expect(find({ url })).toBe("invalid_value");
  });

  it("may have a URL of 8 KiB but not one byte more (SEC-5)", () => {
    expect(find({ url: `/${"a".repeat(8191)}` })).toBeUndefined();
    expect(find({ url: `/${"a".repeat(8192)}` })).toBe("request_headers_too_large");
  });

  it("may have 100 header lines but not one more (SEC-5)", () => {
    const lines = (count: number) => [
      host,
      ...Array.from({ length: count - 1 }, (_, i): [string, string] => [`a${i}`, ""]),
    ];
    expect(find({ lines: lines(100) })).toBeUndefined();
    expect(find({ lines: lines(101) })).toBe("request_headers_too_large");
  });

  it("must have a Host header in HTTP/1.1, but not in HTTP/1.0", () => {
    expect(find({ lines: [] })).toBe("invalid_value");
    expect(find({ lines: [], httpVersion: "1.0" })).toBeUndefined();
  });

  it("must name an allowed host, with or without port, if a list of hosts is configured", () => {
    const hosts = ["api.example", "other.example:8443"];
    const served = (name: string) => find({ lines: [["Host", name]] }, hosts) === undefined;
    expect(["api.example", "API.example:80", "other.example:8443"].map(served)).toEqual([true, true, true]);
    expect(["evil.example", "other.example", "api.example.evil"].map(served)).toEqual([false, false, false]);
  });
});
