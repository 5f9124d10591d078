import { createServer } from "node:tls";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { type Authority, makeAuthority } from "../../support/receivers/authority.js";
import { startDnsServer } from "../../support/receivers/dns-server.js";
import { startListener } from "../../support/receivers/listener.js";
import { startReceiver } from "../../support/receivers/receiver.js";
import { closing, openSender, post } from "./sending.js";

let authority: Authority;
let stranger: Authority;

beforeAll(() => {
  authority = makeAuthority();
  stranger = makeAuthority();
});

afterAll(() => {
  authority.close();
  stranger.close();
});

afterEach(() => vi.unstubAllEnvs());

const local = ["127.0.0.1"];

describe("receivers with TLS", () => {
  it("a certificate of a trusted authority for the name or the address is accepted (WH-23)", async () => {
    const dns = closing(await startDnsServer({ "hooks.test": local }));
    const sender = openSender({ allowHttp: false, dnsServers: [dns.server], ca: authority.ca });
    const receiver = closing(await startReceiver({ tls: authority.issue([...local, "hooks.test"]) }));
    expect(await post(sender, receiver.url)).toMatchObject({ status: 200, ip: "127.0.0.1" });
    expect(await post(sender, `https://hooks.test:${receiver.port}/`)).toMatchObject({ status: 200 });
  });

  const faults = {
    "that has expired": () => authority.issue(local, -1),
    "for another name": () => authority.issue(["other.test"]),
    "of an unknown authority": () => stranger.issue(local),
  } as const;

  it.each(["that has expired", "for another name", "of an unknown authority"] as const)(
    "a certificate %s is rejected before a byte of the request is sent, whatever the environment variables (WH-23)",
    async (fault) => {
      vi.stubEnv("NODE_TLS_REJECT_UNAUTHORIZED", "0");
      const receiver = closing(await startReceiver({ tls: faults[fault]() }));
      const result = await post(openSender({ ca: authority.ca }), receiver.url);
      expect(result).toMatchObject({ status: null, error: "tls", ip: "127.0.0.1", response: null });
      expect(receiver.requests).toHaveLength(0);
    },
  );

  it("a certificate of a private authority is refused by default (WH-23)", async () => {
    const receiver = closing(await startReceiver({ tls: authority.issue(local) }));
    expect(await post(openSender(), receiver.url)).toMatchObject({ status: null, error: "tls" });
  });

  it("a receiver without TLS, with an old version or with invalid data is `tls`", async () => {
    const plain = closing(await startReceiver());
    const nonsense = closing(await startListener({ onConnection: (socket) => void socket.write("x".repeat(500)) }));
    const old = createServer({
      ...authority.issue(local),
      minVersion: "TLSv1",
      maxVersion: "TLSv1.1",
      ciphers: "ALL@SECLEVEL=0",
    });
    old.on("tlsClientError", () => {});
    await new Promise<void>((resolve) => old.listen(0, "127.0.0.1", resolve));
    closing({ close: () => void old.close() });
    const oldPort = (old.address() as { port: number }).port;
    const sender = openSender({ ca: authority.ca });
    for (const port of [plain.port, nonsense.port, oldPort]) {
      expect(await post(sender, `https://127.0.0.1:${port}/`)).toMatchObject({ status: null, error: "tls" });
    }
    expect(plain.requests).toHaveLength(0);
  });

  it("proxies of the environment are ignored (WH-23)", async () => {
    const proxy = closing(await startListener());
    for (const name of ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"]) {
      vi.stubEnv(name, `http://127.0.0.1:${proxy.port}`);
    }
    vi.stubEnv("NODE_USE_ENV_PROXY", "1");
    const sender = openSender({ ca: authority.ca });
    for (const tls of [null, authority.issue(local)]) {
      const receiver = closing(await startReceiver(tls === null ? {} : { tls }));
      expect(await post(sender, receiver.url)).toMatchObject({ status: 200 });
    }
    expect(proxy.connections).toBe(0);
  });
});
