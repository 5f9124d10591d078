import type { RequestContentJson, RequestLogJson } from "../../../../gen/unified/admin/v1/request_log_pb.js";
import { call } from "../../lib/api.js";
import { count, dollars, milliseconds, time, wholeNumber } from "../../lib/format.js";
import { PageLink, useLocation } from "../../lib/location.js";
import { useData } from "../../lib/use-data.js";
import { CodeBlock, Copy } from "../../ui/code.js";
import { Badge, Loading, Problem } from "../../ui/feedback.js";
import { type Column, Table } from "../../ui/table.js";
import { Facts } from "../../ui/values.js";
import { numberOf, prettyJson, queryOf, resultOf, type Step, stepsOf, toneOf } from "./request.js";

/** One request: its facts, the waterfall of its steps, and its content if the service stores it. */
export function RequestView({ id }: { readonly id: string }) {
  const { query } = useLocation();
  const { value, error, reload } = useData(
    (signal) => call("unified.admin.v1.RequestLogService/GetRequestLog", { id }, signal),
    [id],
  );
  return (
    <div class="stack">
      <div>
        <PageLink page="requests" query={{ ...queryOf(query) }}>
          ← All requests
        </PageLink>
      </div>
      <Problem error={error} onRetry={reload} />
      {value === null && error === null && <Loading />}
      {value?.requestLog !== undefined && <Found log={value.requestLog} />}
    </div>
  );
}

const protocols: Readonly<Record<string, string>> = {
  openai: "REST",
  connect: "Connect",
  grpc_web: "gRPC-Web",
  grpc: "gRPC",
};

function Found({ log }: { readonly log: RequestLogJson }) {
  const { id = "", model = "", fallbackModel = "", apiKeyId = "", account = "", protocol = "", isStream = false } = log;
  const { clientRequestId = "", traceId = "", code = "", labels = {}, firstTokenMs } = log;
  return (
    <>
      <section class="card stack" aria-label="Request">
        <div class="row spread">
          <h2>{model === "" ? "Unknown model" : model}</h2>
          <Badge tone={toneOf(code)}>{resultOf(log)}</Badge>
        </div>
        <Facts
          isWide
          of={{
            "Request ID": (
              <>
                <code>{id}</code> <Copy text={id} />
              </>
            ),
            Received: time(log.receivedAt),
            Operation: `${log.operation ?? ""}${isStream ? ", streamed" : ""}`,
            Protocol: protocols[protocol] ?? protocol,
            "Answered by": fallbackModel === "" ? null : fallbackModel,
            "API key":
              apiKeyId === "" ? (
                "Administrator"
              ) : (
                <PageLink page="requests" query={{ key: apiKeyId }}>
                  {apiKeyId}
                </PageLink>
              ),
            Account: account,
            Address: log.address ?? "",
            Duration: milliseconds(log.durationMs),
            "First token": firstTokenMs === undefined ? null : milliseconds(firstTokenMs),
            Tokens: tokenText(log),
            Cost: dollars(log.costNanoDollars),
            "Client's ID": clientRequestId === "" ? null : <code>{clientRequestId}</code>,
            "Trace ID": traceId === "" ? null : <code>{traceId}</code>,
            ...Object.fromEntries(
              Object.entries(labels).map(([name, value]) => [name, <code key={name}>{value}</code>]),
            ),
          }}
        />
      </section>
      <section class="stack-tight">
        <h2>Timeline</h2>
        <Waterfall log={log} />
      </section>
      {log.content !== undefined && <Content content={log.content} />}
    </>
  );
}

function tokenText({ promptTokens, cachedTokens, completionTokens }: RequestLogJson): string {
  const cached = count(cachedTokens) === 0 ? "" : ` (${wholeNumber(cachedTokens)} cached)`;
  return `${wholeNumber(promptTokens)} prompt${cached}, ${wholeNumber(completionTokens)} completion`;
}

/** A table whose last column draws each step on the time axis of the request. */
function Waterfall({ log }: { readonly log: RequestLogJson }) {
  const totalMs = Math.max(0.001, numberOf(log.durationMs));
  const percent = (ms: number): string => `${Math.min(100, Math.max(0, (ms / totalMs) * 100)).toFixed(2)}%`;
  const columns: readonly Column<Step>[] = [
    { title: "Step", cell: ({ title }) => <span class="step-title">{title}</span> },
    { title: "Begin", isNumber: true, cell: ({ beginMs }) => milliseconds(beginMs) },
    { title: "Duration", isNumber: true, cell: ({ durationMs }) => milliseconds(durationMs) },
    {
      title: "Result",
      cell: ({ code }) => (code === "ok" ? <span class="faint">OK</span> : <Badge tone={toneOf(code)}>{code}</Badge>),
    },
    {
      title: "Share of the request",
      cell: ({ beginMs, durationMs, code }) => (
        <div class="step-track">
          <div
            class={`step-bar step-${toneOf(code)}`}
            style={{ marginLeft: percent(beginMs), width: percent(durationMs) }}
          />
        </div>
      ),
    },
  ];
  const steps = stepsOf(log);
  return (
    <div class="waterfall">
      <Table caption="Steps of the request" columns={columns} rows={steps} keyOf={(step) => steps.indexOf(step)} />
    </div>
  );
}

function Content({ content }: { readonly content: RequestContentJson }) {
  const { request = "", answers = [], errorMessage = "", isCut = false } = content;
  return (
    <section class="stack-tight">
      <h2>Content</h2>
      {isCut && <small>Parts of it were too long to be kept.</small>}
      {errorMessage !== "" && <CodeBlock title="Error" code={errorMessage} />}
      {request !== "" && <CodeBlock title="Request" code={prettyJson(request)} />}
      {answers.map((answer, index) => (
        <CodeBlock key={index} title={answers.length === 1 ? "Answer" : `Answer ${index + 1}`} code={answer} />
      ))}
    </section>
  );
}
