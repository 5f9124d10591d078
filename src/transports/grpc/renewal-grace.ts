import type { Server } from "@grpc/grpc-js";

const field = "maxConnectionAgeGraceMs";

/**
 * How long calls may go on when their connection is being renewed: `graceMs()`, asked when that begins. grpc-js takes
 * this as an option, but then it could not change while the server runs, and calls with a longer deadline would be cut
 * off. So this stands in for its private field, here and nowhere else. Throws when there is none.
 */
export function letRenewalTake(server: Server, graceMs: () => number): void {
  if (!Object.hasOwn(server, field)) throw new Error(`grpc-js has no ${field} any more`);
  Object.defineProperty(server, field, { get: graceMs });
}
