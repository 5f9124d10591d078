import type { ComponentChildren } from "preact";
import "./facts.css";

export interface FactsProps {
  /** Null is left out. */
  readonly of: Readonly<Record<string, ComponentChildren>>;
  /** Beside each other, as many as there is room for. */
  readonly isWide?: boolean;
}

/** Names and what they stand for. */
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
