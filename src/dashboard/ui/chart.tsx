import { useEffect, useRef } from "preact/hooks";
import type { ChartProps, Plot } from "./plot.js";
import "./chart.css";

/** A chart. Every chart needs a table of the same numbers on the page, for screen readers. */
export function Chart(props: ChartProps) {
  const element = useRef<HTMLDivElement>(null);
  const plot = useRef<Plot | null>(null);
  const shown = useRef(props);
  shown.current = props;
  useEffect(() => {
    let isGone = false;
    void import("./plot.js").then(({ openPlot }) => {
      if (isGone || element.current === null) return;
      plot.current = openPlot(element.current, shown.current);
    });
    return () => {
      isGone = true;
      plot.current?.close();
      plot.current = null;
    };
  }, []);
  useEffect(() => plot.current?.show(props));
  return (
    <figure class="chart">
      <figcaption>
        <ul class="legend">
          {props.series.map(({ label }, index) => (
            <li key={label}>
              <span class="swatch" style={{ background: `var(--tint-${index})` }} />
              {label}
            </li>
          ))}
        </ul>
      </figcaption>
      <div class="plot" role="img" aria-label={props.label} ref={element} />
    </figure>
  );
}
