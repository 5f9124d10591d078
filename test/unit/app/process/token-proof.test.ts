import { describe, expect, it } from "vitest";
import { isProof, newChallenge, proofOf } from "../../../../src/app/process/token-proof.js";

describe("the proof of a token", () => {
  it("is valid only for its token and its challenge", () => {
    const challenge = newChallenge();
    const proof = proofOf("token-a", challenge);
    expect(isProof("token-a", challenge, proof)).toBe(true);
    expect(isProof("token-b", challenge, proof)).toBe(false);
    expect(isProof("token-a", newChallenge(), proof)).toBe(false);
    for (const wrong of [null, undefined, 7, "", "é".repeat(64)])
      expect(isProof("token-a", challenge, wrong)).toBe(false);
  });

  it("is created only for challenges of 32 bytes", () => {
    expect(newChallenge()).not.toBe(newChallenge());
    for (const challenge of ["", "short", `${newChallenge()}x`, "\n".repeat(43)]) {
      expect(proofOf("token", challenge)).toBeNull();
    }
  });
});
