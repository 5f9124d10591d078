import type { Server } from "@grpc/grpc-js";
import { HealthImplementation } from "grpc-health-check";

/** `grpc.health.v1.Health` for the server as a whole (the empty name) and each service. */
export interface Health {
  setServing(on: boolean): void;
}

/** Adds the service; until told otherwise nothing serves. */
export function addHealth(server: Server, services: readonly string[]): Health {
  const names = ["", ...services];
  const health = new HealthImplementation(Object.fromEntries(names.map((name) => [name, "NOT_SERVING"])));
  health.addToServer(server);
  return {
    setServing(on) {
      for (const name of names) health.setStatus(name, on ? "SERVING" : "NOT_SERVING");
    },
  };
}
