import { describe, expect, it } from "vitest";
import { AddressRules } from "../../../src/lib/address-rules.js";
import { checkTarget, type TargetRules } from "../../../src/outbound/target.js";
import { hostileUrls, hostileZone } from "../../support/receivers/hostile-urls.js";

const strict: TargetRules = { allowHttp: false, allowPorts: [], addresses: new AddressRules([]) };

const refusalOf = (url: string, rules = strict): string | null => {
  const check = checkTarget(url, rules);
  return "refusal" in check ? check.refusal : null;
};

/** Hostile URLs that are recognizable without a DNS lookup. */
const known = hostileUrls(8_443).filter(({ url }) => {
  const host = URL.canParse(url) ? new URL(url).hostname : "";
  return !(host in hostileZone);
});

describe("checkTarget", () => {
  it("the list of hostile URLs is long and has no duplicates (SEC-14)", () => {
    expect(known.length).toBeGreaterThan(180);
    expect(new Set(known.map(({ url }) => url)).size).toBe(known.length);
  });

  it.each(known)("a hostile URL is rejected without a DNS lookup: $why ($url) (SEC-14, WH-39)", ({ url }) => {
    expect(refusalOf(url)).toMatch(/^[A-Z].*\.$/);
  });

  it.each([
    ["https://example.com/hook", "example.com", 443, "example.com", "/hook"],
    ["https://example.com:443", "example.com", 443, "example.com", "/"],
    [
      "HTTPS://Hooks.Example.COM:8443/a/../b?x=%20&y='",
      "hooks.example.com",
      8443,
      "hooks.example.com:8443",
      "/b?x=%20&y=%27",
    ],
    ["https://1.1.1.1/", "1.1.1.1", 443, "1.1.1.1", "/"],
    ["https://0x01010101:1024/", "1.1.1.1", 1024, "1.1.1.1:1024", "/"],
    ["https://[2606:4700::1111]:8443/", "2606:4700::1111", 8443, "[2606:4700::1111]:8443", "/"],
    ["https://bücher.example/ü", "xn--bcher-kva.example", 443, "xn--bcher-kva.example", "/%C3%BC"],
    ["https://a.localhost.example.com/", "a.localhost.example.com", 443, "a.localhost.example.com", "/"],
    ["https://local.example/", "local.example", 443, "local.example", "/"],
  ])("the URL of a public receiver is accepted: %s", (url, host, port, authority, path) => {
    expect(checkTarget(url, strict)).toMatchObject({ target: { isSecure: true, host, port, authority, path } });
  });

  it("a URL may have 2,048 characters and no more", () => {
    const url = `https://example.com/${"a".repeat(2_028)}`;
    expect([refusalOf(url), refusalOf(`${url}a`)]).toEqual([null, "The URL has more than 2,048 characters."]);
  });

  it.each([
    ["http://example.com/", "https://"],
    ["https://user@example.com/", "user name or a password"],
    ["https://example.com/#x", "fragment"],
    ["https://example.com:22/", "port 22"],
    ["https://10.0.0.1/", "address in the URL is not public"],
    ["https://redis/", "one part only"],
    ["https://db.internal/", "private network"],
    ["https://example.com./", "end with a dot"],
    ["https://exa mple.com/", "space"],
    ["nonsense", "cannot be parsed"],
  ])("the message about the invalid URL %s names the problem", (url, words) => {
    expect(refusalOf(url)).toContain(words);
  });

  it("ports in allowPorts are allowed, and port 80 for http only if http is allowed", () => {
    const listed = { ...strict, allowPorts: [444, 80] };
    expect([refusalOf("https://example.com:444/", listed), refusalOf("https://example.com:80/", listed)]).toEqual([
      null,
      null,
    ]);
    const http = { ...strict, allowHttp: true };
    expect(refusalOf("http://example.com/", http)).toBeNull();
    expect(refusalOf("https://example.com:80/", http)).toContain("port 80");
    expect(refusalOf("http://example.com:81/", http)).toContain("port 81");
    expect(refusalOf("ftp://example.com/", http)).toContain("http://");
  });

  it("a range of allowPrivateCidrs allows its addresses, but no host names of private networks (WH-41)", () => {
    const lab = { ...strict, addresses: new AddressRules(["10.0.0.0/8", "127.0.0.0/8", "::1/128"]) };
    const refused = ["https://10.1.2.3/", "https://127.0.0.1:8443/", "https://[::1]:8443/"].map((url) =>
      refusalOf(url, lab),
    );
    expect(refused).toEqual([null, null, null]);
    for (const url of ["https://localhost/", "https://192.168.0.1/", "https://redis/"]) {
      expect(refusalOf(url, lab)).not.toBeNull();
    }
  });
});
