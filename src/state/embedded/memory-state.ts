import type { Clock } from "../../domain/call/ports.js";
import type { State } from "../../domain/service/state.js";
import { createSystemClock } from "../../lib/clock.js";
import { type DeliveryBounds, deliveryBounds } from "./deliveries/delivery-rows.js";
import { MemoryLink } from "./memory-link.js";
import { StoreTime } from "./store-time.js";
import { createStores } from "./stores.js";

export interface MemoryStateDeps extends Partial<DeliveryBounds> {
  /** Default: the system's. */
  readonly clock?: Clock;
}

/** State in an SQLite database in memory (`state.durability: none`), for tests and demonstrations. */
export function openMemoryState({ clock = createSystemClock(), ...bounds }: MemoryStateDeps = {}): State {
  const link = new MemoryLink({ ...deliveryBounds, ...bounds });
  const time = new StoreTime(clock, 0);
  const addUsage: MemoryLink["addUsage"] = (delta, atMs) => link.addUsage(delta, atMs);
  return {
    ...createStores({ link, clock, time, former: [], running: null, addUsage, endpointCounts: [] }),
    kind: "volatile",
    backup: null,
    health: async () => ({
      ok: true,
      latencyMs: 0,
      durability: "none",
      writeFault: null,
      warnings: ["State is kept in memory and is lost at the next start. Remove state.durability: none to keep it."],
    }),
    close: async () => link.close(),
  };
}
