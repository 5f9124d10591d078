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

describe("head of a request", () => {
  it.each(["Host", "Authorization", "Content-Type", "Content-Length"])("two %s headers are refused (SEC-4)", (name) => {
    const lines: [string, string][] = [host, [name, "1"], [name.toUpperCase(), "1"]];
    expect(find({ lines })).toBe("invalid_value");
  });

  it("repeated headers of other names are accepted", () => {
    expect(find({ lines: [host, ["Accept", "a"], ["Accept", "b"]] })).toBeUndefined();
  });

  it.each(["xchunked", "gzip, chunked", "chunked, chunked", "identity", ""])(
    "the transfer encoding '%s' is refused (SEC-4)",
    (encoding) => {
      expect(find({ lines: [host, ["Transfer-Encoding", encoding]] })).toBe("invalid_value");
    },
  );

  it("chunked is the only transfer encoding (SEC-4)", () => {
    expect(find({ lines: [host, ["Transfer-Encoding", "Chunked"]] })).toBeUndefined();
  });

  it("a header name with an underscore is refused (SEC-4)", () => {
    expect(find({ lines: [host, ["x_forwarded_for", "1"]] })).toBe("invalid_value");
  });

  it.each(["http://evil.example/v1/models", "v1/models", "*"])("the target %s is refused (SEC-4)", (url) => {
    expect(find({ url })).toBe("invalid_value");
  });

  it("a URL of 8 KiB passes and one byte more does not (SEC-5)", () => {
    expect(find({ url: `/${"a".repeat(8191)}` })).toBeUndefined();
    expect(find({ url: `/${"a".repeat(8192)}` })).toBe("request_headers_too_large");
  });

  it("100 header lines pass and one more does not (SEC-5)", () => {
    const lines = (count: number) => [
      host,
      ...Array.from({ length: count - 1 }, (_, i): [string, string] => [`a${i}`, ""]),
    ];
    expect(find({ lines: lines(100) })).toBeUndefined();
    expect(find({ lines: lines(101) })).toBe("request_headers_too_large");
  });

  it("a Host header is required from HTTP/1.1 on", () => {
    expect(find({ lines: [] })).toBe("invalid_value");
    expect(find({ lines: [], httpVersion: "1.0" })).toBeUndefined();
  });

  it("only listed hosts are served when a list is set, with or without their port", () => {
    const hosts = ["api.example", "other.example:8443"];
    const served = (name: string) => find({ lines: [["Host", name]] }, hosts) === undefined;
    expect(["api.example", "API.example:80", "other.example:8443"].map(served)).toEqual([true, true, true]);
    expect(["evil.example", "other.example", "api.example.evil"].map(served)).toEqual([false, false, false]);
  });
});
