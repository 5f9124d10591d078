import type { UsageBucketJson } from "../../../gen/unified/admin/v1/usage_service_pb.js";
import { call } from "../api.js";
import { go, usePlace } from "../location.js";
import { Empty, Loading, Problem } from "../ui/feedback.js";
import { slowlyMs, useData } from "../use-data.js";
import { type Choice, choiceOf, groups, queryOf } from "./usage/choice.js";
import { Filter } from "./usage/filter.js";
import { whenOf } from "./usage/range.js";
import { Thresholds } from "./usage/thresholds.js";
import { UsageFigures } from "./usage/usage-figures.js";
import { useKeys } from "./usage/use-keys.js";
import "./usage/usage.css";

const pagesMax = 24;

/** What an account used, and what is to happen when that is much. */
export function Usage() {
  const { query } = usePlace();
  const choice = choiceOf(query, Date.now());
  const keys = useKeys(choice.account === "" ? "default" : choice.account);
  const { account, range, from, to, by } = choice;
  const { value, error, reload } = useData((signal) => read(choice, signal), [account, range, from, to, by], slowlyMs);
  return (
    <div class="stack usage">
      <Filter choice={choice} onChoose={(change) => go("usage", queryOf({ ...choice, ...change }), true)} />
      <Problem error={error} onRetry={reload} />
      {value === null && error === null && <Loading />}
      {value !== null && (isUnused(value) ? <Unused /> : <UsageFigures choice={choice} buckets={value} keys={keys} />)}
      <Thresholds account={account === "" ? "default" : account} keys={keys} />
    </div>
  );
}

function Unused() {
  return (
    <Empty>
      Nothing was used in this time. A first request: <code>uis run MODEL "Hello"</code>
    </Empty>
  );
}

function isUnused(buckets: readonly UsageBucketJson[]): boolean {
  return buckets.every(({ results = [] }) => results.length === 0);
}

/** All pages of the answer, up to two years of days. */
async function read(choice: Choice, signal: AbortSignal): Promise<readonly UsageBucketJson[]> {
  const when = whenOf({ name: choice.range, from: choice.from, to: choice.to }, Date.now());
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
