/**
 * Writes the table of values in the README of the Helm chart from the comments in its values.yaml. Run it after a change of
 * a value: `npx tsx scripts/helm-docs.ts`. A test compares the table with the output of this script.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { isMap, isScalar, type Pair, parseDocument, type YAMLMap } from "yaml";

const chart = new URL("../deploy/helm/unified-inference/", import.meta.url);
const readmeFile = new URL("README.md", chart);
const tablePlace = /(<!-- Written by scripts\/helm-docs\.ts [^\n]*\n)[\s\S]*(<!-- End of the table\. -->)/;

/** One value of the chart. */
export interface ChartValue {
  /** `allInOne.autoscaling.enabled` */
  readonly path: string;
  readonly default: unknown;
  /** The comment above the value, joined into one line; empty if there is none. */
  readonly meaning: string;
}

/** Every value of values.yaml, in its order. A map with a comment of its own is one value, other maps are groups. */
export function readChartValues(): readonly ChartValue[] {
  const { contents } = parseDocument(readFileSync(new URL("values.yaml", chart), "utf8"));
  return isMap(contents) ? valuesIn(contents, "", contents.commentBefore ?? "") : [];
}

/** `firstComment`: the parser gives the comment before the first key to the map. */
function valuesIn(map: YAMLMap, prefix: string, firstComment: string): readonly ChartValue[] {
  return map.items.flatMap((pair: Pair, index) => {
    const { key, value } = pair;
    if (!isScalar(key)) return [];
    const path = `${prefix}${key.value}`;
    const comment = (index === 0 && firstComment !== "" ? firstComment : (key.commentBefore ?? "")).trim();
    if (isMap(value) && value.items.length > 0 && comment === "") {
      return valuesIn(value, `${path}.`, value.commentBefore ?? "");
    }
    const meaning = comment
      .split("\n")
      .map((line) => line.trim())
      .join(" ");
    return [{ path, default: isScalar(value) ? value.value : toPlain(value), meaning }];
  });
}

function toPlain(node: unknown): unknown {
  return typeof node === "object" && node !== null && "toJSON" in node
    ? (node as { toJSON(): unknown }).toJSON()
    : node;
}

/** The README of the chart with the current table. */
export function renderChartReadme(): string {
  const cell = (text: string) => text.replaceAll("|", "\\|");
  const rows = readChartValues().map(
    ({ path, default: value, meaning }) => `| \`${path}\` | \`${cell(JSON.stringify(value))}\` | ${cell(meaning)} |`,
  );
  const table = `\n| value | default | meaning |\n| --- | --- | --- |\n${rows.join("\n")}\n\n`;
  return readFileSync(readmeFile, "utf8").replace(tablePlace, (_, begin: string, end: string) => begin + table + end);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(readmeFile, renderChartReadme());
