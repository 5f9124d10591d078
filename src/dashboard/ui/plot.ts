/** Draws charts with uPlot. Loaded when the first chart is shown. */
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

/** A line, or one part of stacked bars. */
export interface ChartSeries {
  readonly label: string;
  /** One value per time; null if unknown. */
  readonly values: readonly (number | null)[];
}

export interface ChartProps {
  /** Describes the chart, for screen readers. */
  readonly label: string;
  readonly kind: "lines" | "stacked bars";
  /** Unix seconds, ascending. */
  readonly times: readonly number[];
  /** At most 8, because chart.css defines 8 colours. */
  readonly series: readonly ChartSeries[];
  /** Lines only: minimum time range in seconds, ending at the last time. */
  readonly span?: number;
  readonly formatTime: (unixSeconds: number) => string;
  readonly formatValue: (value: number) => string;
}

/** A drawn chart. */
export interface Plot {
  /** Draws new data. */
  readonly show: (props: ChartProps) => void;
  readonly close: () => void;
}

/** Draws a chart that fills the element and follows its size and the colour scheme until it is closed. */
export function openPlot(element: HTMLElement, first: ChartProps): Plot {
  let props = first;
  let chart = draw(element, props);
  const redraw = (): void => {
    chart.destroy();
    chart = draw(element, props);
  };
  const scheme = window.matchMedia("(prefers-color-scheme: dark)");
  const sizes = new ResizeObserver(() => chart.setSize(sizeOf(element)));
  scheme.addEventListener("change", redraw);
  sizes.observe(element);
  return {
    show: (next) => {
      const isSameForm = formOf(next) === formOf(props);
      props = next;
      if (isSameForm) chart.setData(dataOf(props));
      else redraw();
    },
    close: () => {
      scheme.removeEventListener("change", redraw);
      sizes.disconnect();
      chart.destroy();
    },
  };
}

function draw(element: HTMLElement, props: ChartProps): uPlot {
  const colour = (name: string): string => colourOf(element, name);
  const axis = {
    stroke: colour("--faint"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { stroke: colour("--line"), width: 1, size: 4 },
  };
  return new uPlot(
    {
      ...sizeOf(element),
      legend: { show: false },
      cursor: { show: false },
      padding: [8, 24, 0, 0],
      scales: { x: { range: rangeOf(props) }, y: { range: (_chart, _low, high) => [0, Math.max(1, high * 1.1)] } },
      axes: [
        { ...axis, ...splitsOf(props), space: 64, size: 30, values: (_chart, splits) => splits.map(props.formatTime) },
        { ...axis, size: 56, values: (_chart, splits) => splits.map(props.formatValue) },
      ],
      series: [{}, ...seriesOf(props, colour)],
    },
    dataOf(props),
    element,
  );
}

/** The properties that cannot be changed in a drawn chart: if they differ, it is drawn again. */
function formOf({ kind, series, times }: ChartProps): string {
  const bars = kind === "lines" ? [] : times;
  return JSON.stringify([kind, series.map(({ label }) => label), bars]);
}

function sizeOf(element: HTMLElement): { width: number; height: number } {
  return { width: element.clientWidth, height: element.clientHeight };
}

/** Resolves a CSS variable: a canvas accepts neither variables nor `light-dark`. */
function colourOf(element: HTMLElement, variable: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${variable})`;
  element.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/** Stacks bars by drawing cumulative sums, the largest first, so that each part covers the next larger one. */
function dataOf({ kind, times, series }: ChartProps): uPlot.AlignedData {
  if (kind === "lines") return [[...times], ...series.map(({ values }) => [...values])];
  const sums: number[][] = [];
  for (const { values } of series) {
    const below = sums.at(-1);
    sums.push(values.map((value, index) => (value ?? 0) + (below?.[index] ?? 0)));
  }
  return [[...times], ...sums.reverse()];
}

function seriesOf({ kind, series }: ChartProps, colour: (name: string) => string): uPlot.Series[] {
  if (kind === "lines") {
    return series.map(({ label }, index) => ({
      label,
      stroke: colour(`--tint-${index}`),
      width: 2,
      points: { show: false },
      ...(index === 0 ? {} : { dash: [5 + index, 4] }),
    }));
  }
  const paths = uPlot.paths.bars?.({ size: [0.7, 44] });
  const bars = series.map(({ label }, index) => ({
    label,
    fill: colour(`--tint-${index}`),
    stroke: colour(`--tint-${index}`),
    width: 0,
    points: { show: false },
    ...(paths === undefined ? {} : { paths }),
  }));
  return bars.reverse();
}

/** Bars need half their width before the first and after the last time. */
function rangeOf({ kind, times, span = 1 }: ChartProps): uPlot.Range.Function {
  if (kind === "lines") {
    // For a single time, uPlot would show a whole day.
    return ({ data: [shown] }) => [Math.min(shown[0] ?? 0, (shown.at(-1) ?? 0) - span), shown.at(-1) ?? 0];
  }
  const [first = 0, second = first + 1] = times;
  const half = (second - first) / 2;
  return () => [first - half, (times.at(-1) ?? first) + half];
}

/** Labels every bar, or every n-th if there is no room for all. */
function splitsOf({ kind, times }: ChartProps): Partial<uPlot.Axis> {
  if (kind === "lines") return {};
  return {
    splits: (chart) => {
      const step = Math.max(1, Math.ceil((times.length * 64) / Math.max(64, chart.width)));
      return times.filter((_time, index) => index % step === 0);
    },
  };
}
