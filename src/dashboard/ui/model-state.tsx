import type { ModelStatusJson } from "../../../gen/unified/admin/v1/system_pb.js";
import { Badge, type Tone } from "./feedback.js";

const tones: Readonly<Record<string, Tone>> = { ready: "good", loading: "busy", failed: "bad" };

/** The state of a model in one word, and what is wrong with it. */
export function ModelState({ model: { state = "not known", problem = "" } }: { readonly model: ModelStatusJson }) {
  return (
    <div>
      <Badge tone={tones[state] ?? "plain"}>{state}</Badge>
      {problem !== "" && <div class="faint">{problem}</div>}
    </div>
  );
}
