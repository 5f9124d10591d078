import { useEffect, useState } from "preact/hooks";
import { stream } from "../../lib/api.js";
import { Problem } from "../../ui/feedback.js";
import { Field, textOf } from "../../ui/form.js";
import { isTruncatedBy } from "./answers.js";
import { Composer, CopyAs, orError, TruncatedNote } from "./composer.js";
import { completionRequest, type Settings } from "./requests.js";
import { useRun } from "./run.js";
import { RunButtons, RunStatus } from "./run-status.js";

export interface CompletionProps {
  readonly model: string;
  readonly settings: Settings;
  /** Reports why the last request was rejected; null if it was not. */
  readonly onProblem: (problem: Error | null) => void;
}

/** Completes a prompt. */
export function Completion({ model, settings, onProblem }: CompletionProps) {
  const [prompt, setPrompt] = useState("");
  const [answer, setAnswer] = useState("");
  const [isTruncated, setTruncated] = useState(false);
  const [problem, setProblem] = useState<Error | null>(null);
  const run = useRun();
  useEffect(() => onProblem(problem ?? run.error), [problem, run.error]);

  const ask = (): void => {
    const request = orError(() => completionRequest(model, settings, prompt));
    setProblem(request instanceof Error ? request : null);
    if (request instanceof Error) return;
    run.start(async (signal, meter) => {
      setAnswer("");
      setTruncated(false);
      const rpc = "unified.inference.v1.InferenceService/StreamCompletion";
      for await (const { chunk = {} } of stream(rpc, { params: request.params }, signal)) {
        const { text = "", finishReason } = chunk.choices?.[0] ?? {};
        if (text !== "") meter.piece();
        if (chunk.usage !== undefined) meter.counted(chunk.usage.completionTokens ?? 0);
        setAnswer((before) => before + text);
        if (isTruncatedBy(finishReason)) setTruncated(true);
      }
    });
  };

  return (
    <div class="stack">
      <Composer onSend={ask} buttons={<RunButtons run={run} verb="Complete" />}>
        <Field label="Prompt" hint="Press Ctrl+Enter to send.">
          {(ids) => (
            <textarea {...ids} rows={5} required value={prompt} onInput={(event) => setPrompt(textOf(event))} />
          )}
        </Field>
      </Composer>
      <section class="card said answer" aria-label="Completion" aria-live="polite" aria-busy={run.state === "running"}>
        {answer === "" ? <span class="faint">The completion appears here.</span> : answer}
        {isTruncated && <TruncatedNote />}
      </section>
      <RunStatus run={run} />
      <Problem error={problem} />
      <CopyAs request={() => completionRequest(model, settings, prompt || "Once upon a time")} />
    </div>
  );
}
