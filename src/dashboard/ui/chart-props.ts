/** What a chart is given. */

/** One line, or one part of the bars. */
export interface ChartSeries {
  readonly label: string;
  /** One per time; null where nothing is known. */
  readonly values: readonly (number | null)[];
}

export interface ChartProps {
  /** What it shows, for those who cannot see it. */
  readonly label: string;
  readonly kind: "lines" | "stacked bars";
  /** Unix seconds, rising. */
  readonly times: readonly number[];
  /** At most 8: as many as there are tints in chart.css. */
  readonly series: readonly ChartSeries[];
  /** Seconds that are shown at least, up to the last time. Lines only. */
  readonly span?: number;
  readonly formatTime: (unixSeconds: number) => string;
  readonly formatValue: (value: number) => string;
}
