/** The values of a metrics page, by the full name of each line: `uis_requests_total{route="list_models",…}`. */
export function parseMetrics(page: string): ReadonlyMap<string, number> {
  return new Map(
    page
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"))
      .map((line) => {
        const cut = line.lastIndexOf(" ");
        return [line.slice(0, cut), Number(line.slice(cut + 1))] as const;
      }),
  );
}

/** The lines of one metric: labels as they are written, and the value. */
export function metricLines(page: string, name: string): Record<string, number> {
  const lines = [...parseMetrics(page)].filter(([line]) => line === name || line.startsWith(`${name}{`));
  return Object.fromEntries(lines.map(([line, value]) => [line.slice(name.length), value]));
}
