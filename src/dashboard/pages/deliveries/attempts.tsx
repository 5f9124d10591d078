import type { AttemptJson } from "../../../../gen/unified/webhook/v1/delivery_pb.js";
import { milliseconds, time, wholeNumber } from "../../format.js";
import { Badge } from "../../ui/feedback.js";
import { type Column, Table } from "../../ui/table.js";
import { answerWords, askedBy } from "./delivery-words.js";

/** Each attempt that is kept, with what the receiver answered as plain text. */
export function Attempts({ attempts, made }: { readonly attempts: readonly AttemptJson[]; readonly made: number }) {
  return (
    <section class="stack" aria-labelledby="attempts">
      <h3 id="attempts">Attempts</h3>
      {attempts.length === 0 && <p class="faint">None was made yet.</p>}
      {attempts.length > 0 && (
        <Table caption="Attempts, oldest first" columns={columns} rows={attempts} keyOf={({ number = 0 }) => number} />
      )}
      {made > attempts.length && attempts.length > 0 && (
        <small>
          The newest {attempts.length} of {wholeNumber(made)} are kept.
        </small>
      )}
    </section>
  );
}

const columns: readonly Column<AttemptJson>[] = [
  { title: "Number", isNumber: true, cell: ({ number }) => wholeNumber(number) },
  { title: "Began", cell: ({ startedAt = "" }) => <time dateTime={startedAt}>{time(startedAt)}</time> },
  { title: "Trigger", cell: (attempt) => <Trigger attempt={attempt} /> },
  { title: "Answer", cell: (attempt) => <Answer attempt={attempt} /> },
  { title: "Took", isNumber: true, cell: ({ latencyMs }) => <span class="whole">{milliseconds(latencyMs)}</span> },
  {
    title: "Address",
    cell: ({ ip = "" }) => (ip === "" ? <span class="faint">none</span> : <code class="whole">{ip}</code>),
  },
  {
    title: "Next was due",
    cell: ({ nextAttemptAt }) =>
      nextAttemptAt === undefined ? (
        <span class="faint">none</span>
      ) : (
        <time dateTime={nextAttemptAt}>{time(nextAttemptAt)}</time>
      ),
  },
];

function Trigger({ attempt }: { readonly attempt: AttemptJson }) {
  if (attempt.trigger !== "manual") return <span>schedule</span>;
  return (
    <div class="attempt-trigger">
      by hand <div class="faint">{askedBy(attempt)}</div>
    </div>
  );
}

function Answer({ attempt }: { readonly attempt: AttemptJson }) {
  const { status = 0, response = "", retryAfter = "" } = attempt;
  const isGood = status >= 200 && status < 300;
  return (
    <div class="attempt-answer">
      <Badge tone={isGood ? "good" : "bad"}>{answerWords(attempt)}</Badge>
      {retryAfter !== "" && <div class="faint">Retry-After: {retryAfter} (not obeyed)</div>}
      {response !== "" && (
        <details>
          <summary>Text of the answer</summary>
          <pre>{response}</pre>
        </details>
      )}
    </div>
  );
}
