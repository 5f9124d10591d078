import { expect, it } from "vitest";
import { startDnsServer } from "../../support/receivers/dns-server.js";
import { hostileUrls, hostileZone } from "../../support/receivers/hostile-urls.js";
import { noConnections, startTraps } from "../../support/receivers/traps.js";
import { closing, openSender, post } from "./sending.js";

it("every hostile URL is rejected at registration and at an attempt, and no connection is made (SEC-14, WH-39, WH-42)", async () => {
  const traps = closing(await startTraps());
  const dns = closing(await startDnsServer(hostileZone));
  const urls = hostileUrls(traps.port);
  expect(urls.length).toBeGreaterThanOrEqual(120);

  for (const allowHttp of [false, true]) {
    const sender = openSender({ allowHttp, allowPrivateCidrs: [], dnsServers: [dns.server] });
    for (const { url, why } of urls) {
      if (allowHttp && url.startsWith("http://hooks.")) continue;
      const refusal = await sender.refusalOf(url, "acme");
      const { latencyMs: _, ...result } = await post(sender, url, 2_000);
      expect({ url, why, refusal, result }).toEqual({
        url,
        why,
        refusal: expect.stringMatching(/^[A-Z][^\n]*\.$/),
        result: { status: null, error: "blocked_address", ip: null, response: null, retryAfter: null },
      });
      // No message reveals the addresses of a name.
      expect(refusal).not.toMatch(/\d+\.\d+\.\d+\.\d+|::/);
    }
  }
  expect(traps.connections()).toEqual(noConnections(traps));
});
