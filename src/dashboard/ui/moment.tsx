import { distance, time } from "../format.js";

export interface MomentProps {
  readonly at: string | undefined;
  /** What is shown when there is no such instant. */
  readonly none?: string;
}

/** How far away an instant is, with the instant itself for whoever points at it. */
export function Moment({ at, none = "never" }: MomentProps) {
  if (at === undefined) return <span class="faint whole">{none}</span>;
  return (
    <time class="whole" dateTime={at} title={time(at)}>
      {distance(at, Date.now())}
    </time>
  );
}
