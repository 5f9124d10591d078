import type { SystemJson } from "../../../../gen/unified/admin/v1/system_pb.js";
import { dollars, milliseconds, perSecond, shortNumber, wholeNumber } from "../../lib/format.js";
import { Stat } from "../../ui/stat.js";
import { errorShare, type History, type Quantiles, type Row, rate, requestsNow } from "./history.js";

export interface FiguresProps {
  readonly system: SystemJson;
  readonly history: History;
  /** Output tokens per second now; null while unknown. */
  readonly outputRate: number | null;
}

/** Shares of failed requests above which the error rate is coloured as a warning and as an error. */
const errorShares = { busy: 0.01, bad: 0.05 };

/** Key figures of errors, load, cost and latency, over the time range and now. */
export function Figures({ system, history: { rows, total }, outputRate }: FiguresProps) {
  const { running, waiting, slots } = requestsNow(system);
  const course = (of: (row: Row) => number | null): readonly (number | null)[] => rows.map(of);
  return (
    <div class="cards figures">
      <Stat
        title="Requests"
        value={shortNumber(total.requests)}
        more={`${shortNumber(total.rejected)} rejected, ${shortNumber(total.cancelled)} cancelled`}
        points={course((row) => rate(row, row.requests))}
      />
      <Errors rows={rows} total={total} />
      <Stat
        title="Tokens"
        value={shortNumber(total.promptTokens + total.completionTokens)}
        more={`${shortNumber(total.promptTokens)} input, ${shortNumber(total.completionTokens)} output`}
        points={course((row) => rate(row, row.promptTokens + row.completionTokens))}
      />
      <Stat
        title="Cost"
        value={dollars(total.costNano)}
        more={total.costNano === 0 ? "by the prices of the models" : perThousand(total)}
        points={course((row) => rate(row, row.costNano))}
      />
      <Stat
        title="Active now"
        value={wholeNumber(running)}
        more={`of ${wholeNumber(slots)} slots, ${wholeNumber(waiting)} queued`}
        {...(waiting > 0 && running >= slots ? { tone: "busy" as const } : {})}
      />
      <Stat
        title="Output now"
        value={outputRate === null ? "…" : perSecond(outputRate)}
        more="tokens per second"
        points={course((row) => rate(row, row.completionTokens))}
      />
      <Latency
        title="Time to first token"
        quantiles={total.firstToken}
        points={course((row) => row.firstToken?.p50 ?? null)}
      />
      <Latency
        title="Request duration"
        quantiles={total.duration}
        points={course((row) => row.duration?.p50 ?? null)}
      />
    </div>
  );
}

function Errors({ rows, total }: History) {
  const share = errorShare(total);
  const tone = share === null || share < errorShares.busy ? null : share < errorShares.bad ? "busy" : "bad";
  return (
    <Stat
      title="Error rate"
      value={share === null ? "–" : `${(100 * share).toFixed(1)} %`}
      more={`${shortNumber(total.failed)} of ${shortNumber(total.requests)} failed`}
      points={rows.map(({ failed }) => failed)}
      {...(tone === null ? {} : { tone })}
    />
  );
}

interface LatencyProps {
  readonly title: string;
  readonly quantiles: Quantiles | null;
  readonly points: readonly (number | null)[];
}

function Latency({ title, quantiles, points }: LatencyProps) {
  return (
    <Stat
      title={title}
      value={quantiles === null ? "–" : milliseconds(quantiles.p50)}
      more={quantiles === null ? "nothing measured yet" : `p50; p95 ${milliseconds(quantiles.p95)}`}
      points={points}
    />
  );
}

function perThousand({ costNano, requests }: Row): string {
  return `${dollars((1_000 * costNano) / Math.max(1, requests))} per 1,000 requests`;
}
