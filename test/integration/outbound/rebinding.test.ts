import { expect, it } from "vitest";
import { startDnsServer, type Zone } from "../../support/receivers/dns-server.js";
import { startListener } from "../../support/receivers/listener.js";
import { startReceiver } from "../../support/receivers/receiver.js";
import { freePort } from "../../support/redis/redis-process.js";
import { rounds } from "../../support/tier.js";
import { closing, openSender, post } from "./sending.js";

/** An address of a former public range, now unused: no host answers. */
const nobody = "3ffe::1";

/** A part of loopback that simulates the public network: it is allowed, 127.0.0.1 is not. */
const openRange = "127.77.0.0/16";
const openAddress = "127.77.0.1";

/** Names whose answers change with each query, or contain allowed and blocked addresses. */
const zone: Zone = {
  "public-first.test": (before) => (before % 2 === 0 ? [nobody] : ["127.0.0.1"]),
  "open-first.test": (before) => (before % 2 === 0 ? [openAddress] : ["127.0.0.1"]),
  "bad-four.test": [nobody, "127.0.0.1"],
  "bad-six.test": [openAddress, "::1"],
  "bad-among-many.test": [openAddress, "127.77.0.2", "127.0.0.1", "127.77.0.3"],
};

it("no connection is made to an address that is not open, whatever a resolver answers and when (SEC-15, WH-40)", {
  timeout: 300_000,
}, async () => {
  // Not one that the system chose for one address: it may be in use at the others.
  const port = await freePort();
  const receiver = closing(await startReceiver({ host: openAddress, port }));
  const traps = [closing(await startListener({ port })), closing(await startListener({ host: "::1", port }))];
  const dns = closing(await startDnsServer(zone));
  const sender = openSender({ allowPrivateCidrs: [openRange], dnsServers: [dns.server] });

  const errors: Record<string, Set<string | null>> = {};
  const deliveries = rounds(1_000);
  for (let made = 0; made < deliveries; made += 1) {
    for (const name of Object.keys(zone)) {
      const budgetMs = name === "public-first.test" ? 100 : 5_000;
      const { error, status, ip } = await post(sender, `http://${name}:${port}/`, budgetMs);
      errors[name] = (errors[name] ?? new Set()).add(error);
      expect([openAddress, null]).toContain(ip);
      expect(status).toBe(error === null ? 200 : null);
      // Each delivery resolves the name and connects again.
      receiver.dropConnections();
    }
  }
  expect(traps.map(({ connections }) => connections)).toEqual([0, 0]);
  expect(receiver.requests.length).toBeGreaterThan(0);
  for (const name of ["bad-four.test", "bad-six.test", "bad-among-many.test"]) {
    expect([name, ...(errors[name] ?? [])]).toEqual([name, "blocked_address"]);
  }
  expect(errors["open-first.test"]).toContain(null);
  expect(errors["open-first.test"]).toContain("blocked_address");
});

it("a name that passed at registration is refused at the attempt once it resolves to a private address (SEC-14, WH-39)", async () => {
  const trap = closing(await startListener());
  const dns = closing(await startDnsServer({ "moved.test": (before) => [before === 0 ? openAddress : "127.0.0.1"] }));
  const sender = openSender({ allowPrivateCidrs: [openRange], dnsServers: [dns.server] });
  const url = `http://moved.test:${trap.port}/`;
  expect(await sender.refusalOf(url, "acme")).toBeNull();
  expect(await post(sender, url)).toMatchObject({ status: null, error: "blocked_address", ip: null });
  expect(trap.connections).toBe(0);
});
