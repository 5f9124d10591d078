import type { ComponentChildren } from "preact";

export interface StatProps {
  readonly title: string;
  readonly value: string;
  /** Puts the value into relation: a total, a share, a period. */
  readonly more?: ComponentChildren;
  /** Colours the value; the other texts must say the same. */
  readonly tone?: "bad" | "busy";
  /** The value over time, oldest first; null where nothing was measured. */
  readonly points?: readonly (number | null)[];
}

/** A key figure with its history. */
export function Stat({ title, value, more, tone, points }: StatProps) {
  return (
    <div class="card stat">
      <h2>{title}</h2>
      <div class={tone === undefined ? "figure" : `figure figure-${tone}`}>{value}</div>
      {more !== undefined && <small>{more}</small>}
      {points !== undefined && <Sparkline points={points} />}
    </div>
  );
}

const width = 120;
const height = 28;

/** A line without axes. A table of the same numbers stands elsewhere on the page. */
function Sparkline({ points }: { readonly points: readonly (number | null)[] }) {
  return (
    <svg class="sparkline" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
      {runsOf(points).map((run) => {
        const line = run.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L");
        const [first, last] = [run[0]?.[0] ?? 0, run.at(-1)?.[0] ?? 0];
        return (
          <g key={first}>
            <path class="sparkline-area" d={`M${line}L${last.toFixed(1)} ${height}L${first.toFixed(1)} ${height}Z`} />
            <path class="sparkline-line" d={`M${line}`} />
          </g>
        );
      })}
    </svg>
  );
}

type Dot = readonly [x: number, y: number];

/** The drawn parts of the line: it is interrupted where nothing was measured, and single values are left out. */
function runsOf(points: readonly (number | null)[]): readonly (readonly Dot[])[] {
  const highest = Math.max(0, ...points.map((point) => point ?? 0));
  const step = width / Math.max(1, points.length - 1);
  const runs: Dot[][] = [];
  let run: Dot[] = [];
  for (const [index, point] of points.entries()) {
    if (point === null) {
      run = [];
      continue;
    }
    if (run.length === 0) runs.push(run);
    run.push([index * step, height - 1 - (highest === 0 ? 0 : (point / highest) * (height - 2))]);
  }
  return runs.filter((dots) => dots.length > 1);
}
