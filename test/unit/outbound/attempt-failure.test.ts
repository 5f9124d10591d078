import { describe, expect, it } from "vitest";
import { BlockedAddress } from "../../../src/outbound/resolver.js";
import { attemptErrorOf } from "../../../src/outbound/webhook-sender.js";

const coded = (code: string) => Object.assign(new Error("it failed"), { code });

describe("attemptErrorOf", () => {
  it.each([
    [coded("ENOTFOUND"), "lookup", "dns"],
    [coded("ETIMEOUT"), "lookup", "dns"],
    [new BlockedAddress(), "lookup", "blocked_address"],
    [coded("ECONNREFUSED"), "connect", "connect"],
    [coded("EHOSTUNREACH"), "connect", "connect"],
    [coded("EMFILE"), "connect", "connect"],
    [coded("ETIMEDOUT"), "connect", "connect"],
    [coded("ECONNRESET"), "connect", "reset"],
    [new AggregateError([coded("ETIMEDOUT"), coded("ECONNREFUSED")]), "connect", "connect"],
    [coded("CERT_HAS_EXPIRED"), "handshake", "tls"],
    [coded("EPROTO"), "handshake", "tls"],
    [coded("ECONNRESET"), "handshake", "reset"],
    [coded("ETIMEDOUT"), "handshake", "reset"],
    [coded("ECONNRESET"), "answer", "reset"],
    [coded("EPIPE"), "answer", "reset"],
    [new Error("without a code"), "answer", "reset"],
    [coded("ERR_SSL_DECRYPTION_FAILED_OR_BAD_RECORD_MAC"), "answer", "tls"],
    [coded("HPE_HEADER_OVERFLOW"), "answer", "bad_response"],
    [coded("HPE_INVALID_CONSTANT"), "answer", "bad_response"],
  ] as const)("%s in the phase %s is %s", (error, phase, expected) => {
    expect(attemptErrorOf(error, phase)).toBe(expected);
  });
});
