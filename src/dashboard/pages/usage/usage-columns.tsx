import { dollars, wholeNumber } from "../../format.js";
import type { Column } from "../../ui/table.js";
import type { Grouping } from "./choice.js";
import type { RangeName } from "./range.js";
import type { UsageRow } from "./sums.js";

const hour = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const hourOfDay = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", timeZone: "UTC" });
const dayOfYear = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeZone: "UTC" });

/** Below the bars. */
export function chartTimes(range: RangeName): (unixSeconds: number) => string {
  const format = range === "24h" ? hour : day;
  return (seconds) => format.format(seconds * 1_000);
}

export function timeColumn(range: RangeName): Column<UsageRow> {
  const format = range === "24h" ? hourOfDay : dayOfYear;
  return {
    title: range === "24h" ? "Hour" : "Day",
    cell: ({ startTime }) => format.format(new Date(startTime)),
  };
}

export function groupColumns(by: Grouping, nameOf: (id: string) => string): readonly Column<UsageRow>[] {
  const model: Column<UsageRow> = { title: "Model", cell: (row) => <span class="value">{row.model}</span> };
  const key: Column<UsageRow> = {
    title: "API key",
    cell: ({ apiKeyId }) => (
      <div>
        {nameOf(apiKeyId)} {nameOf(apiKeyId) !== apiKeyId && <small class="value">{apiKeyId}</small>}
      </div>
    ),
  };
  return { model: [model], key: [key], "model-key": [model, key], all: [] }[by];
}

export const sumColumns: readonly Column<UsageRow>[] = [
  { title: "Requests", cell: ({ requests }) => wholeNumber(requests), isNumber: true },
  { title: "Tokens in", cell: ({ promptTokens }) => wholeNumber(promptTokens), isNumber: true },
  { title: "of them cached", cell: ({ cachedTokens }) => wholeNumber(cachedTokens), isNumber: true },
  { title: "Tokens out", cell: ({ completionTokens }) => wholeNumber(completionTokens), isNumber: true },
  { title: "Cost", cell: ({ costNanoDollars }) => dollars(costNanoDollars), isNumber: true },
];

/** The table of every hour or day as a file holds it: with ids beside names, and numbers as they are kept. */
export function csvRows(
  rows: readonly UsageRow[],
  nameOf: (id: string) => string,
): readonly (readonly (string | number)[])[] {
  const head = [
    ...["start_time", "end_time", "model", "api_key_id", "api_key_name", "requests"],
    ...["prompt_tokens", "completion_tokens", "cached_tokens", "cost_nano_dollars"],
  ];
  return [
    head,
    ...rows.map((row) => [
      row.startTime,
      row.endTime,
      row.model,
      row.apiKeyId,
      row.apiKeyId === "" ? "" : nameOf(row.apiKeyId),
      row.requests,
      row.promptTokens,
      row.completionTokens,
      row.cachedTokens,
      row.costNanoDollars,
    ]),
  ];
}
