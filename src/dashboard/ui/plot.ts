/** Draws charts. Fetched only when one is shown. */
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { ChartProps } from "./chart-props.js";

/** A chart that is drawn. */
export interface Plot {
  /** Draws what is known now. */
  readonly show: (props: ChartProps) => void;
  readonly close: () => void;
}

/** Fills the element and follows its size and the colour scheme until it is closed. */
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

/** What a drawn chart cannot take over by new numbers alone. */
function formOf({ kind, series, times }: ChartProps): string {
  const bars = kind === "lines" ? [] : times;
  return JSON.stringify([kind, series.map(({ label }) => label), bars]);
}

function sizeOf(element: HTMLElement): { width: number; height: number } {
  return { width: element.clientWidth, height: element.clientHeight };
}

/** Colours on a canvas must be final; variables and `light-dark` are not. */
function colourOf(element: HTMLElement, variable: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${variable})`;
  element.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/** Sums of bars stand before one another, the whole first, so that of each only its own part is seen. */
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

/** Bars need half of themselves beside the first and the last. */
function rangeOf({ kind, times, span = 1 }: ChartProps): uPlot.Range.Function {
  if (kind === "lines") {
    // What uPlot proposes for a single time is a whole day.
    return ({ data: [shown] }) => [Math.min(shown[0] ?? 0, (shown.at(-1) ?? 0) - span), shown.at(-1) ?? 0];
  }
  const [first = 0, second = first + 1] = times;
  const half = (second - first) / 2;
  return () => [first - half, (times.at(-1) ?? first) + half];
}

/** The begin of every bar, or of every n-th where there is no room for all. */
function splitsOf({ kind, times }: ChartProps): Partial<uPlot.Axis> {
  if (kind === "lines") return {};
  return {
    splits: (chart) => {
      const step = Math.max(1, Math.ceil((times.length * 64) / Math.max(64, chart.width)));
      return times.filter((_time, index) => index % step === 0);
    },
  };
}
