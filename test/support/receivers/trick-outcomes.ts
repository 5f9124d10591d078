import type { SendResult } from "../../../src/domain/webhooks/delivery.js";
import type { Trick } from "./tricks.js";

/** The result of an attempt at each hostile receiver. */
export const trickOutcomes: Readonly<Record<Trick, Partial<SendResult>>> = {
  hang: { status: null, error: "timeout" },
  close: { status: null, error: "reset" },
  reset: { status: null, error: "reset" },
  "reset in the head": { status: null, error: "reset" },
  "reset in the body": { status: 200, error: null, response: "begun" },
  "drip of headers": { status: null, error: "timeout" },
  "drip of body": { status: 200, error: null },
  "endless body": { status: 200, error: null, response: "x".repeat(2_048) },
  "endless chunk head": { status: 200, error: null, response: "" },
  "body of 1 GiB": { status: 200, error: null, response: "x".repeat(2_048) },
  "100,000 headers": { status: null, error: "bad_response" },
  "one header of 1 MiB": { status: null, error: "bad_response" },
  "no status line": { status: null, error: "bad_response" },
  "random bytes": { status: null, error: "bad_response" },
  "101 with an upgrade": { status: null, error: "bad_response" },
  "101 without an upgrade": { status: null, error: "bad_response" },
  "103, then 200": { status: 200, error: null, response: "fine" },
  "103 only": { status: null, error: "timeout" },
  "endless 103": { status: null, error: "bad_response" },
  "two contradicting lengths": { status: null, error: "bad_response" },
  "status 000": { status: null, error: "bad_response" },
  "gzip bomb": { status: 200, error: null },
  "flood after the answer": { status: 200, error: null, response: "fine" },
};
