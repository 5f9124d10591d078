import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { describe, expect, it } from "vitest";
import { browserOf } from "../../../../src/transports/connect/routes.js";

function open(headers: Record<string, string>, isSecure = false) {
  const socket = isSecure ? new TLSSocket(new Socket()) : new Socket();
  const req = new IncomingMessage(socket);
  Object.assign(req.headers, headers);
  const res = new ServerResponse(req);
  return { res, browser: browserOf(req, res) };
}

describe("session cookie", () => {
  it("has the prefix __Host- and the attribute Secure on a TLS connection, which restrict it to this host and TLS (KEY-22)", () => {
    const { res, browser } = open({ cookie: "uis_session=plain; __Host-uis_session=secure" }, true);
    expect(browser.sessionToken).toBe("secure");
    browser.keepSession("abc", 5_000);
    expect(res.getHeader("set-cookie")).toBe(
      "__Host-uis_session=abc; Path=/; Max-Age=5; HttpOnly; SameSite=Strict; Secure",
    );
  });

  it("has no prefix on a plain connection, where browsers reject __Host- (KEY-22)", () => {
    const { res, browser } = open({ cookie: "__Host-uis_session=secure;uis_session=plain" });
    expect(browser.sessionToken).toBe("plain");
    browser.keepSession(null, 0);
    expect(res.getHeader("set-cookie")).toBe("uis_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict");
  });

  it("has the Secure attribute behind a proxy that terminates TLS, because the page itself was loaded over TLS (KEY-22)", () => {
    const cookie = "uis_session=plain; __Host-uis_session=secure";
    const { res, browser } = open({ cookie, host: "tools.example", origin: "https://tools.example" });
    expect(browser.sessionToken).toBe("secure");
    browser.keepSession("abc", 5_000);
    expect(res.getHeader("set-cookie")).toBe(
      "__Host-uis_session=abc; Path=/; Max-Age=5; HttpOnly; SameSite=Strict; Secure",
    );
  });

  it("is read behind a proxy that terminates TLS from requests of other pages, which are rejected for their origin (KEY-22)", () => {
    const cookie = "__Host-uis_session=secure";
    const { browser } = open({ cookie, host: "tools.example", origin: "https://evil.example" });
    expect([browser.sessionToken, browser.isSameOrigin]).toEqual(["secure", false]);
  });

  it("is separate from the cookie that marks a known browser, which has the same attributes (E-13)", () => {
    const { res, browser } = open({ cookie: "__Host-uis_browser=known; uis_browser=planted" }, true);
    expect([browser.knownToken, browser.sessionToken]).toEqual(["known", undefined]);
    browser.keepSession("abc", 5_000);
    browser.keepKnown("def", 9_000);
    expect(res.getHeader("set-cookie")).toEqual([
      "__Host-uis_session=abc; Path=/; Max-Age=5; HttpOnly; SameSite=Strict; Secure",
      "__Host-uis_browser=def; Path=/; Max-Age=9; HttpOnly; SameSite=Strict; Secure",
    ]);
    expect(res.getHeader("cache-control")).toBe("no-store");
  });

  it.each([
    [undefined, undefined],
    ["", undefined],
    ["other=1", undefined],
    ["uis_session=a; uis_session=b", undefined],
    ["xuis_session=a", undefined],
    ["uis_session=", ""],
    ["a=b; uis_session=c=d", "c=d"],
  ])("in the header %j has the token %j", (cookie, token) => {
    expect(open(cookie === undefined ? {} : { cookie }).browser.sessionToken).toBe(token);
  });

  it.each([
    ["http://localhost:8080", false, true],
    ["HTTP://LOCALHOST:8080", false, true],
    ["https://localhost:8080", false, true],
    ["http://localhost:8080", true, false],
    ["https://localhost:8080", true, true],
    ["https://localhost", true, false],
    ["https://localhost:8081", true, false],
    ["https://evil.example", true, false],
    ["null", false, false],
    ["", false, false],
    [undefined, false, undefined],
  ])("comes with the Origin %j (TLS: %s) from this server: %s (KEY-22)", (origin, isSecure, isSame) => {
    const headers = { host: "localhost:8080", ...(origin === undefined ? {} : { origin }) };
    expect(open(headers, isSecure).browser.isSameOrigin).toBe(isSame);
  });

  it.each([
    ["same-origin", "http://localhost:8080", true],
    ["same-origin", undefined, undefined],
    ["same-site", "http://localhost:8080", false],
    ["cross-site", undefined, false],
    ["none", undefined, false],
  ])("comes with Sec-Fetch-Site %s and the Origin %j from this server: %s (SEC-20)", (site, origin, isSame) => {
    const headers = { host: "localhost:8080", "sec-fetch-site": site, ...(origin === undefined ? {} : { origin }) };
    expect(open(headers).browser.isSameOrigin).toBe(isSame);
  });

  it("comes with a User-Agent that is shortened to 256 characters", () => {
    expect(open({ "user-agent": "x".repeat(5_000) }).browser.userAgent).toHaveLength(256);
    expect(open({}).browser.userAgent).toBe("");
  });
});
