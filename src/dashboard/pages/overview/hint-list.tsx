import type { SystemJson } from "../../../../gen/unified/admin/v1/system_pb.js";
import { Badge } from "../../ui/feedback.js";
import { PageLink } from "../../ui/page-link.js";
import { hintsOf } from "./hints.js";

/** What needs attention, or that nothing does. Read out when it changes. */
export function Hints({ system }: { readonly system: SystemJson }) {
  const hints = hintsOf(system);
  return (
    <section class="card hints" aria-label="Attention" aria-live="polite">
      {hints.length === 0 ? (
        <p>
          <Badge tone="good">Well</Badge> Nothing needs attention.
        </p>
      ) : (
        <ul>
          {hints.map(({ text, page }) => (
            <li key={text}>
              <Badge tone="busy">Look</Badge>
              <span>
                {text} {page !== undefined && <PageLink page={page}>Go to {titles[page]}</PageLink>}
              </span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

const titles = { models: "Models", webhooks: "Webhooks", deliveries: "Deliveries" } as const;
