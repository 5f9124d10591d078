import { describe, expect, it } from "vitest";
import { createFairShares } from "../../../src/domain/call/fair-shares.js";
import { AbortSource } from "../../../src/lib/abort-source.js";
import { AddressRules } from "../../../src/lib/address-rules.js";
import { Resolver } from "../../../src/outbound/resolver.js";
import { startDnsServer } from "../../support/receivers/dns-server.js";
import { startReceiver } from "../../support/receivers/receiver.js";
import { closing, openSender, post } from "./sending.js";

const loopback = new AddressRules(["127.0.0.1/32"]);

function openResolver(server: string, rules = loopback, now = () => performance.now()) {
  const share = createFairShares().lookups;
  return { share, resolver: closing(new Resolver([server], { rules, share, now })) };
}

describe("DNS lookups of receivers", () => {
  it("a name is resolved by the configured server, and the request's Host header contains it", async () => {
    const receiver = closing(await startReceiver());
    const dns = closing(await startDnsServer({ "hooks.test": ["127.0.0.1"] }));
    const sender = openSender({ dnsServers: [dns.server] });
    expect(await post(sender, `http://hooks.test:${receiver.port}/`)).toMatchObject({ status: 200, ip: "127.0.0.1" });
    expect(receiver.requests[0]?.headers.host).toBe(`hooks.test:${receiver.port}`);
    expect([...dns.questions].sort()).toEqual(["A hooks.test", "AAAA hooks.test"]);
  });

  it("the next address of a name is tried if one does not answer", async () => {
    const receiver = closing(await startReceiver({ host: "127.0.0.2" }));
    const dns = closing(await startDnsServer({ "two.test": ["127.0.0.1", "127.0.0.2"] }));
    const sender = openSender({ dnsServers: [dns.server] });
    expect(await post(sender, `http://two.test:${receiver.port}/`)).toMatchObject({ status: 200, ip: "127.0.0.2" });
  });

  it("all addresses of a name are checked, and at most eight are tried (WH-40)", async () => {
    const many = Array.from({ length: 25 }, (_, index) => `127.77.0.${index + 1}`);
    const dns = closing(await startDnsServer({ "many.test": many, "last-is-bad.test": [...many, "127.0.0.1"] }));
    const { resolver } = openResolver(dns.server, new AddressRules(["127.77.0.0/16"]));
    expect(await resolver.addresses("many.test", "acme")).toHaveLength(8);
    await expect(resolver.addresses("last-is-bad.test", "acme")).rejects.toThrow("not open to webhooks");
  });

  it.each(["no such name", "failure"] as const)("a name without an address (%s) is `dns`", async (answer) => {
    const dns = closing(await startDnsServer({ "none.test": answer }));
    const sender = openSender({ dnsServers: [dns.server] });
    expect(await post(sender, "https://none.test/")).toMatchObject({ status: null, error: "dns", ip: null });
    expect(await sender.refusalOf("https://none.test/", "acme")).toBeNull();
  });

  it("a resolver that never answers takes at most the time budget (WH-20)", async () => {
    const dns = closing(await startDnsServer({ "slow.test": "silence" }));
    const sender = openSender({ dnsServers: [dns.server] });
    const startedAtMs = performance.now();
    const results = await Promise.all([1, 2, 3].map(() => post(sender, "https://slow.test/", 200)));
    expect(performance.now() - startedAtMs).toBeLessThan(5 * 200);
    expect(results.map(({ error }) => error)).toEqual(["dns", "dns", "dns"]);
    // All attempts share one lookup.
    expect(dns.questions.filter((question) => question === "A slow.test").length).toBeLessThanOrEqual(2);
  });

  it("unresolvable names of one account do not use up the lookups of another account (E-11)", async () => {
    const count = 600;
    const names = Array.from({ length: count }, (_, index) => `name-${index}.hangs.test`);
    const silent = Object.fromEntries(names.map((name) => [name, "silence" as const]));
    const dns = closing(await startDnsServer({ ...silent, "good.test": ["127.0.0.1"] }));
    const { resolver, share } = openResolver(dns.server);
    const hanging = names.map((name) => resolver.addresses(name, "attacker").catch(() => null));
    const found = await Promise.all([1, 2, 3, 4, 5].map(() => resolver.addresses("good.test", "neighbour")));
    expect(found).toEqual(Array(5).fill([{ address: "127.0.0.1", family: 4 }]));
    expect([share.held, share.waiting]).toEqual([32, count - 32]);
    resolver.close();
    await Promise.all(hanging);
    expect([share.held, share.waiting]).toEqual([0, 0]);
  });

  it("look-ups beyond an account's share wait, and run when others end or are aborted while they wait (E-11)", async () => {
    const names = Array.from({ length: 33 }, (_, index) => `name-${index}.test`);
    const dns = closing(await startDnsServer(Object.fromEntries(names.map((name) => [name, ["127.0.0.1"]]))));
    const { resolver, share } = openResolver(dns.server);
    const found = names.map((name) => resolver.addresses(name, "acme"));
    const aborted = new AbortSource();
    const waiting = resolver.addresses("another.test", "acme", aborted);
    await Promise.resolve();
    expect(share.waiting).toBe(2);
    aborted.abort(new Error("the attempt is over"));
    await expect(waiting).rejects.toThrow("the attempt is over");
    expect((await Promise.all(found)).flat()).toHaveLength(33);
  });

  it("a name that failed is not looked up again for 5 s (E-11)", async () => {
    let nowMs = 0;
    const dns = closing(await startDnsServer({ "later.test": (before) => (before === 0 ? "failure" : ["127.0.0.1"]) }));
    const { resolver } = openResolver(dns.server, loopback, () => nowMs);
    const resolve = () => resolver.addresses("later.test", "acme");
    await expect(resolve()).rejects.toThrow();
    const asked = dns.questions.length;
    nowMs = 4_999;
    await expect(resolve()).rejects.toThrow();
    expect(dns.questions).toHaveLength(asked);
    nowMs = 5_000;
    expect(await resolve()).toHaveLength(1);
  });

  it("a registration waits 2 s for a name and then accepts it", async () => {
    const dns = closing(await startDnsServer({ "slow.test": "silence" }));
    const sender = openSender({ dnsServers: [dns.server] });
    const startedAtMs = performance.now();
    expect(await sender.refusalOf("https://slow.test/", "acme")).toBeNull();
    const tookMs = performance.now() - startedAtMs;
    expect(tookMs).toBeGreaterThan(1_900);
    expect(tookMs).toBeLessThan(10_000);
  });

  it("without configured servers the system's resolver is used, and private names are refused", async () => {
    const sender = openSender({ allowPrivateCidrs: [] });
    expect(await post(sender, "https://name.invalid/")).toMatchObject({ error: "dns", status: null });
    expect(await sender.refusalOf("https://localhost/", "acme")).not.toBeNull();
  });

  it("names may resolve to a listed range, and only to that range (WH-41)", async () => {
    const dns = closing(
      await startDnsServer({ "lab.test": ["10.1.2.3"], "other.test": ["10.2.0.1"], "meta.test": ["169.254.169.254"] }),
    );
    const sender = openSender({ allowPrivateCidrs: ["10.1.0.0/16", "169.254.0.0/16"], dnsServers: [dns.server] });
    const refusals = await Promise.all(
      ["lab", "other", "meta"].map((name) => sender.refusalOf(`https://${name}.test/`, "acme")),
    );
    expect(refusals).toEqual([null, expect.stringContaining("not public"), expect.stringContaining("not public")]);
  });
});
