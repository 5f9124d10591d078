/** Components that show values of records. */
import type { ComponentChildren } from "preact";
import type { ModelStatusJson } from "../../../gen/unified/admin/v1/system_pb.js";
import { distance, time } from "../lib/format.js";
import { Badge, type Tone } from "./feedback.js";

export interface FactsProps {
  /** Values by label; null values are left out. */
  readonly of: Readonly<Record<string, ComponentChildren>>;
  /** Uses several columns on wide screens. */
  readonly isWide?: boolean;
}

/** A list of labels and values. */
export function Facts({ of, isWide = false }: FactsProps) {
  return (
    <dl class={isWide ? "fact-list wide" : "fact-list"}>
      {Object.entries(of)
        .filter(([, value]) => value !== null)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

export interface MomentProps {
  readonly at: string | undefined;
  /** Shown if there is no timestamp. */
  readonly none?: string;
}

/** A relative time, with the absolute one as its tooltip. */
export function Moment({ at, none = "Never" }: MomentProps) {
  if (at === undefined) return <span class="faint whole">{none}</span>;
  return (
    <time class="whole" dateTime={at} title={time(at)}>
      {distance(at, Date.now())}
    </time>
  );
}

const modelStates: Readonly<Record<string, readonly [tone: Tone, word: string]>> = {
  ready: ["good", "Ready"],
  loading: ["busy", "Loading"],
  unloaded: ["plain", "Not loaded"],
  failed: ["bad", "Failed"],
};

/** A model's status and, if any, its problem. */
export function ModelState({ model: { state = "", problem = "" } }: { readonly model: ModelStatusJson }) {
  const [tone, word] = modelStates[state] ?? ["plain", state === "" ? "Unknown" : state];
  return (
    <div>
      <Badge tone={tone}>{word}</Badge>
      {problem !== "" && <div class="faint">{problem}</div>}
    </div>
  );
}
