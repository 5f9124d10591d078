import { describe, expect, it } from "vitest";
import { isOffSchedule, webhookSettings } from "../../../../src/app/config/webhook-settings.js";

const seconds = (...all: number[]): number[] => all.map((each) => each * 1_000);

describe("settings of webhooks", () => {
  it("follow the documented schedule by default (WH-25)", () => {
    const settings = webhookSettings.parse({});
    expect(settings).toMatchObject({ deliver: true, allow_http: false, endpoints_max: 20, attempt_timeout: 5_000 });
    expect(settings.retry_delays).toEqual(seconds(30, 120, 600, 1_800, 7_200));
    expect(isOffSchedule(settings)).toBe(false);
  });

  it.each([{ attempt_timeout: "1s" }, { retry_delays: ["1s"] }])(
    "differ from the documented schedule with %j",
    (settings) => {
      expect(isOffSchedule(webhookSettings.parse(settings))).toBe(true);
    },
  );

  it.each([
    { allow_private_cidrs: ["10.0.0.0/8", "fd12:3456::/32", "127.0.0.1/32"] },
    { allow_ports: [80, 8443] },
    { dns_servers: ["1.1.1.1", "127.0.0.1:5353", "[::1]:53", "2606:4700::1111"] },
    { attempt_timeout: "10s" },
    { disable_after: "0s" },
  ])("are accepted: %j", (settings) => {
    expect(webhookSettings.safeParse(settings).success).toBe(true);
  });

  it.each([
    { allow_private_cidrs: ["10.0.0.0"] },
    { allow_private_cidrs: ["10.0.0.0/33"] },
    { allow_private_cidrs: ["intranet/8"] },
    { allow_ports: [0] },
    { dns_servers: ["dns.example.com"] },
    { dns_servers: ["1.1.1.1:99999"] },
    { endpoints_max: 0 },
    { retry_delays: [] },
    { retry: true },
  ])("are rejected: %j", (settings) => {
    expect(webhookSettings.safeParse(settings).success).toBe(false);
  });

  it("are rejected with a timeout that is less than 5 s shorter than the lease (WH-34)", () => {
    expect(webhookSettings.safeParse({ attempt_timeout: "10001ms" }).success).toBe(false);
  });
});
