import { Server } from "@grpc/grpc-js";
import { expect, it } from "vitest";
import { letRenewalTake } from "../../../../src/transports/grpc/renewal-grace.js";

it("how long calls may go on while their connection is renewed is asked each time", () => {
  const server = new Server();
  let graceMs = 1_000;
  letRenewalTake(server, () => graceMs);
  const asGrpcReadsIt = server as unknown as { maxConnectionAgeGraceMs: number };
  expect(asGrpcReadsIt.maxConnectionAgeGraceMs).toBe(1_000);
  graceMs = 2_000;
  expect(asGrpcReadsIt.maxConnectionAgeGraceMs).toBe(2_000);
});

it("a server without the field is refused, so that an update of grpc-js that lacks it cannot go unseen", () => {
  expect(() => letRenewalTake({} as Server, () => 1)).toThrow("maxConnectionAgeGraceMs");
});
