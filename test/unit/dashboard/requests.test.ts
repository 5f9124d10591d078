import { expect, it } from "vitest";
import { listRequest, queryOf, stepsOf, toneOf } from "../../../src/dashboard/pages/requests/request.js";

const shown = (log: Parameters<typeof stepsOf>[0]) =>
  stepsOf(log).map(({ title, beginMs, durationMs, code }) => `${title} ${beginMs}+${durationMs} ${code}`);

it("the steps of a request are checks, limits, the wait, the attempt, its stream and the settlement, in this order", () => {
  const tries = [{ deployment: "gpu/m", beganMs: 50, durationMs: 100, code: "ok" }];
  const log = { durationMs: 160, admitMs: 5, queueMs: 30, firstTokenMs: 90, tries };
  expect(shown(log)).toEqual([
    "Received and checked 0+15 ok",
    "Checked limits 15+5 ok",
    "Waited for a slot 20+30 ok",
    "gpu/m 50+100 ok",
    "Streamed from the first token 90+60 ok",
    "Settled and delivered 150+10 ok",
  ]);
});

it("the steps of a request contain gaps between attempts as waits, which do not count as the wait before the first", () => {
  const tries = [
    { deployment: "a", beganMs: 10, durationMs: 20, code: "upstream_error" },
    { deployment: "b", beganMs: 45, durationMs: 55, code: "ok" },
  ];
  expect(shown({ durationMs: 100, queueMs: 23, tries })).toEqual([
    "Received and checked 0+2 ok",
    "Waited for a slot 2+8 ok",
    "a 10+20 upstream_error",
    "Waited for a slot 30+15 ok",
    "b 45+55 ok",
  ]);
});

it("a request without an attempt at a deployment is shown as one step", () => {
  expect(shown({ durationMs: 3, code: "rate_limit_exceeded" })).toEqual(["Received and checked 0+3 ok"]);
});

it("the request list is limited to the chosen time range, and to no range if the URL has an unknown one", () => {
  const request = (address: string) => listRequest(queryOf(new URLSearchParams(address)), "", 50, 3_600_000);
  expect(request("range=15&code=error&key=key_1")).toMatchObject({
    from: "1970-01-01T00:45:00.000Z",
    code: "error",
    apiKeyId: "key_1",
    model: "",
  });
  expect(request("range=7")).not.toHaveProperty("from");
});

it("rate-limited and cancelled requests are coloured as warnings, and other errors as failures", () => {
  const codes = ["ok", "rate_limit_exceeded", "client_closed_request", "upstream_error", "model_not_found"];
  expect(codes.map(toneOf)).toEqual(["good", "busy", "busy", "bad", "bad"]);
});
