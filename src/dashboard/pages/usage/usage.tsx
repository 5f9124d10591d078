import type { ApiKeyJson } from "../../../../gen/unified/admin/v1/api_key_pb.js";
import type { UsageBucketJson } from "../../../../gen/unified/admin/v1/usage_service_pb.js";
import { call } from "../../lib/api.js";
import { go, useLocation } from "../../lib/location.js";
import { slowRefreshMs, useData } from "../../lib/use-data.js";
import { Empty, Loading, Problem } from "../../ui/feedback.js";
import { Field, Select, textOf } from "../../ui/form.js";
import {
  type Choice,
  choiceOf,
  groupingTitles,
  groups,
  measureTitles,
  queryOf,
  rangeTitles,
  whenOf,
} from "./choice.js";
import { Thresholds } from "./thresholds.js";
import { UsageFigures } from "./usage-figures.js";
import "./usage.css";

/** Usage of an account, and all thresholds and budgets. */
export function Usage() {
  const { query } = useLocation();
  const choice = choiceOf(query, Date.now());
  const keys = useKeys(choice.account === "" ? "default" : choice.account);
  const { account, range, from, to, by } = choice;
  const { value, error, reload } = useData(
    (signal) => read(choice, signal),
    [account, range, from, to, by],
    slowRefreshMs,
  );
  return (
    <div class="stack usage">
      <Filter choice={choice} onChoose={(change) => go("usage", queryOf({ ...choice, ...change }), true)} />
      <Problem error={error} onRetry={reload} />
      {value === null && error === null && <Loading />}
      {value !== null &&
        (isUnused(value) ? <NoUsage /> : <UsageFigures choice={choice} buckets={value} keys={keys ?? []} />)}
      <Thresholds account={account === "" ? "default" : account} keys={keys} />
    </div>
  );
}

function NoUsage() {
  return (
    <Empty>
      No usage in this time range. Send a first request with <code>uis run MODEL "Hello"</code>.
    </Empty>
  );
}

function isUnused(buckets: readonly UsageBucketJson[]): boolean {
  return buckets.every(({ results = [] }) => results.length === 0);
}

/** The most pages that are read: enough for two years of days. */
const pagesMax = 24;

async function read(choice: Choice, signal: AbortSignal): Promise<readonly UsageBucketJson[]> {
  const when = whenOf(choice, Date.now());
  const buckets: UsageBucketJson[] = [];
  let pageToken = "";
  for (let page = 0; page < pagesMax; page++) {
    const answer = await call(
      "unified.admin.v1.UsageService/QueryUsage",
      { account: choice.account, ...when, groupBy: groups[choice.by], pageToken },
      signal,
    );
    buckets.push(...(answer.buckets ?? []));
    pageToken = answer.nextPageToken ?? "";
    if (pageToken === "") break;
  }
  return buckets;
}

const namedKeysMax = 1_000;

/** The account's first 1,000 keys, for their names; further keys are shown by id. Null while they are read. */
function useKeys(account: string): readonly ApiKeyJson[] | null {
  const { value } = useData(
    (signal) => call("unified.admin.v1.ApiKeyService/ListApiKeys", { account, pageSize: namedKeysMax }, signal),
    [account],
    slowRefreshMs,
  );
  return value === null ? null : (value.apiKeys ?? []);
}

interface FilterProps {
  readonly choice: Choice;
  readonly onChoose: (change: Partial<Choice>) => void;
}

function Filter({ choice, onChoose }: FilterProps) {
  return (
    <div class="row filter">
      <Select label="Time range" titles={rangeTitles} value={choice.range} onChoose={(range) => onChoose({ range })} />
      {choice.range === "days" && (
        <>
          <Day label="First day (UTC)" value={choice.from} onChoose={(from) => onChoose({ from })} />
          <Day label="Last day (UTC)" value={choice.to} onChoose={(to) => onChoose({ to })} />
        </>
      )}
      <Select label="Group by" titles={groupingTitles} value={choice.by} onChoose={(by) => onChoose({ by })} />
      <Select label="Metric" titles={measureTitles} value={choice.of} onChoose={(of) => onChoose({ of })} />
    </div>
  );
}

interface DayProps {
  readonly label: string;
  readonly value: string;
  readonly onChoose: (day: string) => void;
}

function Day({ label, value, onChoose }: DayProps) {
  return (
    <Field label={label}>
      {(ids) => (
        <input
          {...ids}
          type="date"
          required
          value={value}
          onChange={(event) => {
            if (textOf(event) !== "") onChoose(textOf(event));
          }}
        />
      )}
    </Field>
  );
}
