/**
 * Writes docs/metrics.md from the table of metrics. Run it after a change of one: `npx tsx scripts/metric-docs.ts`. A test
 * compares the file with the output of this script.
 */
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type MetricName, metricRow, metricTable } from "../src/telemetry/metrics/metric-table.js";

const introduction = `# Metrics

<!-- Written by scripts/metric-docs.ts from src/telemetry/metrics/metric-table.ts. Change the table, then run it. -->

\`GET /metrics\` on the listener for operators (127.0.0.1:9464, \`server.ops_host\` and \`server.ops_port\`) returns them in
Prometheus's text format; the public listener never does. They belong to one process and start at 0 with it: bill from the usage in
the store, which no counter here replaces (USE-19).

- \`route\` is the operation, the same on every protocol: \`create_chat_completion\`. \`operation\` is its name in usage:
  \`chat\`, \`responses\`, \`messages\`, \`completions\`, \`embeddings\`, \`rerank\` or \`count_tokens\`, and empty for operations that run no model. \`code\`,
  \`reason\` and \`error_type\` are codes of [errors.md](errors.md).
- \`model\` is a model of the catalog that was used; \`unknown\` stands for names that are not in it, an empty one for
  operations without a model. \`other\` stands for all models beyond the first 1,000 and, in histograms, beyond the first 20
  (\`metrics.histogram_models\`). No label names a key, an account or an address. A model has at most 300 bytes of
  counters and gauges as long as its id is short: lines that would be 0 are left out, except running and waiting requests.
- \`resource\` is what all accounts share: attempts of deliveries (\`webhooks\`: open ones to endpoints with due ones), look-ups of their names (\`lookups\`),
  reads of usage (\`usage_reads\`), pages of lists (\`lists\`) and prompts that are counted (\`tokenizing\`). Calls that wait
  for a slot of a model are in \`uis_requests_waiting\`; bytes of request bodies never wait, they are refused.
- \`endpoint\` is the id of a webhook endpoint: the 100 that have waited longest, \`other\` for the rest. \`result\` is the
  outcome of an attempt: \`delivered\`, \`awaiting_retry\`, \`permanently_failed\`, \`lease_lost\` if another process had taken
  over the delivery, \`unrecorded\` if the store did not record it. A process that sends no webhooks has none of these.
- \`deployment\` is the id of a deployment, \`upstream\` the name of its upstream: the first 1,000 deployments that were used,
  \`other\` for the rest and, in histograms, beyond the first 20. \`outcome\` is \`success\`, \`cancelled\`, \`upstream_error\`, \`timeout\`, \`rate_limited\`, \`unauthorized\` or
  \`invalid_response\`; a request that was tried on two deployments or with two keys counts twice.
- \`uis_upstream_token_estimate_ratio\` shows the error of the estimate that token limits reserve for models without a tokenizer
  here: 1 is exact, less means that the estimate was too high. Settled tokens are those that the upstream reports.
- The names that begin with \`gen_ai\` are those of OpenTelemetry's conventions for generative AI, which still change.
- \`deploy/grafana/unified-inference.json\` is a dashboard for them, and \`deploy/prometheus/alerts.yml\` has alerts: [alerts.md](alerts.md).
- There are also prom-client's metrics of the process: \`process_\` and \`nodejs_\`.

| metric | type | labels | meaning |
| --- | --- | --- | --- |
`;

/** The page as it must be. */
export function renderMetricsPage(): string {
  const rows = (Object.keys(metricTable) as MetricName[]).map((name) => {
    const { type, labels, help } = metricRow(name);
    return `| \`${name}\` | ${type} | ${labels.map((label) => `\`${label}\``).join(", ")} | ${help} |`;
  });
  return `${introduction}${rows.join("\n")}\n`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(new URL("../docs/metrics.md", import.meta.url), renderMetricsPage());
}
