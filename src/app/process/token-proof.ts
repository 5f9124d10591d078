import { createHmac, randomBytes } from "node:crypto";
import { isSameDigest } from "../../lib/crypto.js";

/** The page of a running service that answers a challenge. */
export const identityPath = "/identity";

/** 32 random bytes in base64url. */
const challengeForm = /^[\w-]{43}$/;
/** Part of the digested text, so that no other use of the token yields the same digest. */
const purpose = "unified-inference identity 1";

/** A new random challenge for a service. */
export function newChallenge(): string {
  return randomBytes(32).toString("base64url");
}

/**
 * Proof that this process holds the token: an HMAC-SHA256 of the challenge with the token as its key, in hex. Only for
 * tokens with 256 random bits, because anyone may request a proof. Null for a malformed challenge.
 */
export function proofOf(token: string, challenge: string): string | null {
  if (!challengeForm.test(challenge)) return null;
  return createHmac("sha256", token).update(`${purpose}\n${challenge}`).digest("hex");
}

/** Whether the proof belongs to this token and challenge, in constant time. */
export function isProof(token: string, challenge: string, proof: unknown): boolean {
  const expected = proofOf(token, challenge);
  if (expected === null || typeof proof !== "string" || proof.length !== expected.length) return false;
  return isSameDigest(proof, expected);
}
