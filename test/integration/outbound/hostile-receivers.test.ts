import { describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { startHostileProcess } from "../../support/receivers/hostile-process.js";
import { refusingPort, startListener } from "../../support/receivers/listener.js";
import { startReceiver } from "../../support/receivers/receiver.js";
import { trickOutcomes } from "../../support/receivers/trick-outcomes.js";
import { reset, type Trick, tricks } from "../../support/receivers/tricks.js";
import { rounds } from "../../support/tier.js";
import { closing, openSender, post } from "./sending.js";

const budgetMs = 300;
/** Five times the maximum duration of an attempt. */
const boundMs = 5 * budgetMs;

const names = Object.keys(tricks) as Trick[];

describe("hostile receivers", () => {
  it.each(names)(
    "%s: the attempt ends in time with the expected result, and its socket is closed (WH-20, WH-21, SEC-16)",
    async (trick) => {
      const receiver = closing(await startReceiver({ answer: trick }));
      const startedAtMs = performance.now();
      const result = await post(openSender(), receiver.url, budgetMs);
      const tookMs = performance.now() - startedAtMs;

      expect(result).toMatchObject({ ...trickOutcomes[trick], ip: "127.0.0.1" });
      expect(tookMs).toBeLessThan(boundMs);
      if (result.error === "timeout") expect(tookMs).toBeGreaterThanOrEqual(budgetMs - 2);
      await eventually(() => receiver.open === 0, "the end of the connection");
    },
  );

  it("the budget ends an attempt without a TLS answer, unless the connection ends before (WH-20)", async () => {
    const silent = closing(await startListener());
    const resetting = closing(await startListener({ onConnection: reset }));
    const sender = openSender();
    const startedAtMs = performance.now();
    expect(await post(sender, `https://127.0.0.1:${silent.port}/`, budgetMs)).toMatchObject({
      status: null,
      error: "timeout",
      ip: "127.0.0.1",
    });
    expect(performance.now() - startedAtMs).toBeLessThan(boundMs);
    for (const scheme of ["http", "https"]) {
      const result = await post(sender, `${scheme}://127.0.0.1:${resetting.port}/`, budgetMs);
      expect(result).toMatchObject({ status: null, error: "reset" });
    }
  });

  it("a refused connection is `connect`, and no connected address is reported", async () => {
    const result = await post(openSender(), `http://127.0.0.1:${await refusingPort()}/`);
    expect(result).toMatchObject({ status: null, error: "connect", ip: null, response: null });
  });

  it("memory does not grow over repeated attempts (SEC-16)", async () => {
    const urls = Object.values(closing(await startHostileProcess()).urls);
    const sender = openSender();
    const meetAll = () => Promise.all(urls.map((url) => post(sender, url, budgetMs)));
    for (let round = 0; round < 3; round += 1) await meetAll();
    const before = process.memoryUsage().rss;
    let highest = before;
    const watch = setInterval(() => {
      highest = Math.max(highest, process.memoryUsage().rss);
    }, 10);
    for (let round = 0; round < rounds(50); round += 1) await meetAll();
    clearInterval(watch);
    // Five times the aim of 10 MiB.
    expect((highest - before) / 2 ** 20).toBeLessThan(50);
  });
});
