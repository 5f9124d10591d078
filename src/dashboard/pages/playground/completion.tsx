import { useState } from "preact/hooks";
import { stream } from "../../api.js";
import { Problem } from "../../ui/feedback.js";
import { Field, textOf } from "../../ui/form.js";
import { Composer } from "./composer.js";
import { CopyAs } from "./copy-as.js";
import { CutShort } from "./cut-short.js";
import { completionRequest } from "./requests.js";
import { useRun } from "./run.js";
import { RunButtons, RunStatus } from "./run-status.js";
import type { ModeProps } from "./settings.js";
import { isCutBy } from "./transcript.js";
import { tried } from "./tried.js";

/** The continuation of a text. */
export function Completion({ model, settings }: ModeProps) {
  const [prompt, setPrompt] = useState("");
  const [answer, setAnswer] = useState("");
  const [isCut, setCut] = useState(false);
  const [problem, setProblem] = useState<Error | null>(null);
  const run = useRun();

  const ask = (): void => {
    const request = tried(() => completionRequest(model, settings, prompt));
    setProblem(request instanceof Error ? request : null);
    if (request instanceof Error) return;
    run.start(async (signal, meter) => {
      setAnswer("");
      setCut(false);
      const rpc = "unified.inference.v1.InferenceService/StreamCompletion";
      for await (const { chunk = {} } of stream(rpc, { params: request.params }, signal)) {
        const { text = "", finishReason } = chunk.choices?.[0] ?? {};
        if (text !== "") meter.piece();
        if (chunk.usage !== undefined) meter.counted(chunk.usage.completionTokens ?? 0);
        setAnswer((before) => before + text);
        if (isCutBy(finishReason)) setCut(true);
      }
    });
  };

  return (
    <div class="stack">
      <Composer onSend={ask} buttons={<RunButtons run={run} verb="Complete" />}>
        <Field label="Text to go on with" hint="Ctrl and Enter send it.">
          {(ids) => (
            <textarea {...ids} rows={5} required value={prompt} onInput={(event) => setPrompt(textOf(event))} />
          )}
        </Field>
      </Composer>
      <section class="card said answer" aria-label="Answer" aria-live="polite" aria-busy={run.state === "running"}>
        {answer === "" ? <span class="faint">The answer comes here.</span> : answer}
        {isCut && <CutShort />}
      </section>
      <RunStatus run={run} />
      <Problem error={problem} />
      <CopyAs request={() => completionRequest(model, settings, prompt || "Once upon a time")} />
    </div>
  );
}
