import type { ListenersJson, StateStatusJson, SystemJson } from "../../../../gen/unified/admin/v1/system_pb.js";
import { distance, milliseconds, time, wholeNumber } from "../../format.js";
import { Facts } from "../../ui/facts.js";
import { Badge } from "../../ui/feedback.js";

const kinds: Readonly<Record<string, string>> = {
  embedded: "Embedded, in the data folder",
  redis: "Redis",
  volatile: "Memory only",
};

const losses: Readonly<Record<string, string>> = {
  "every-write": "Nothing: every write is on disk before it is answered",
  "one-second": "Up to the last second",
  none: "Everything",
};

interface StoreProps {
  readonly state: StateStatusJson;
  readonly deliveriesDue: string | undefined;
}

/** Where keys, usage and deliveries are kept, and how well. */
export function Store({ state, deliveriesDue }: StoreProps) {
  const { kind = "", durability = "" } = state;
  return (
    <section class="card stack" aria-label="Store">
      <div class="row spread">
        <h2>Store</h2>
        {state.ok === true ? <Badge tone="good">answers</Badge> : <Badge tone="bad">does not answer</Badge>}
      </div>
      <Facts
        of={{
          Kind: kinds[kind] ?? kind,
          "A power cut can take": losses[durability] ?? durability,
          "Round trip": milliseconds(state.latencyMs),
          "Processes that share it": wholeNumber(state.replicas ?? 1),
          "Ended requests that wait for it": wholeNumber(state.spooled),
          "Deliveries due": wholeNumber(deliveriesDue),
        }}
      />
    </section>
  );
}

/** Which service this is, and since when. */
export function Service({ system: { version, startedAt, now, listeners = {} } }: { readonly system: SystemJson }) {
  return (
    <section class="card stack" aria-label="Service">
      <h2>Service</h2>
      <Facts
        of={{
          Version: version ?? "",
          Listens: listeningText(listeners),
          Started: `${time(startedAt)} (${distance(startedAt, now === undefined ? Date.now() : Date.parse(now))})`,
        }}
      />
    </section>
  );
}

function listeningText({ host = "", httpPort = 0, grpcPort = 0, tls = false }: ListenersJson): string {
  return `${host}: HTTP on ${httpPort}, gRPC on ${grpcPort}, ${tls ? "with" : "without"} TLS`;
}
