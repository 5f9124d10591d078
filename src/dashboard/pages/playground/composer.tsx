import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { SystemJson } from "../../../../gen/unified/admin/v1/system_pb.js";
import { call } from "../../lib/api.js";
import { prefix } from "../../lib/location.js";
import { useData } from "../../lib/use-data.js";
import { CodeBlock } from "../../ui/code.js";
import { Loading, Problem } from "../../ui/feedback.js";
import { Select } from "../../ui/form.js";
import { type ChatApi, exampleOf, grpcAddress, type Language } from "./examples.js";
import type { PlaygroundRequest } from "./requests.js";

export interface ComposerProps {
  readonly onSend: () => void;
  /** Enter submits and Shift+Enter adds a line. Default: Enter adds a line and Ctrl+Enter submits. */
  readonly sendsOnEnter?: boolean;
  readonly children: ComponentChildren;
  readonly buttons: ComponentChildren;
}

/** A form that Enter or Ctrl+Enter in a text area submits. */
export function Composer({ onSend, sendsOnEnter = false, children, buttons }: ComposerProps) {
  return (
    <form
      class="stack composer"
      onSubmit={(event) => {
        event.preventDefault();
        onSend();
      }}
      onKeyDown={(event) => {
        // While an input method composes a word, Enter accepts the word.
        if (event.key !== "Enter" || event.isComposing || !(event.target instanceof HTMLTextAreaElement)) return;
        if (!(event.ctrlKey || event.metaKey || (sendsOnEnter && !event.shiftKey))) return;
        event.preventDefault();
        event.currentTarget.requestSubmit();
      }}
    >
      {children}
      <footer>{buttons}</footer>
    </form>
  );
}

/** Shown below an answer that reached its maximum number of tokens. */
export function TruncatedNote() {
  return (
    <div>
      <small>Truncated: max tokens reached.</small>
    </div>
  );
}

const languages: Readonly<Record<Language, string>> = {
  curl: "curl",
  Python: "Python",
  TypeScript: "TypeScript",
  gRPC: "gRPC (buf curl)",
};

const chatApis: Readonly<Record<ChatApi, string>> = {
  chat: "Chat completions",
  responses: "Responses",
  messages: "Messages",
};

/** Shows the request as code to copy. */
export function CopyAs({ request }: { readonly request: () => PlaygroundRequest }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="card" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Copy as code</summary>
      {isOpen && <Example request={orError(request)} />}
    </details>
  );
}

function Example({ request }: { readonly request: PlaygroundRequest | Error }) {
  const [language, setLanguage] = useState<Language>("curl");
  const [api, setApi] = useState<ChatApi>("chat");
  const { value: system, error, reload } = useData(readSystem, []);
  if (request instanceof Error) return <p class="faint">{request.message}</p>;
  if (system === null) return error === null ? <Loading /> : <Problem error={error} onRetry={reload} />;
  const { grpc, isTls } = grpcAddress(system.listeners ?? {}, window.location.hostname);
  const address = { base: `${window.location.origin}${prefix}`, grpc, isTls };
  const { text, omitted } = exampleOf(language, request, address, api);
  return (
    <div class="stack">
      <Select label="Language" titles={languages} value={language} onChoose={setLanguage} />
      {request.kind === "chat" && language !== "gRPC" && (
        <Select label="API" titles={chatApis} value={api} onChoose={setApi} />
      )}
      <CodeBlock title={languages[language]} code={text} />
      {omitted.length > 0 && <small>This API does not have {omitted.join(", ")}.</small>}
      <small>
        Set <code>UIS_API_KEY</code> to an API key.
        {language === "gRPC" &&
          ` Run the command in the folder of the package unified-inference, whose folder proto it reads. ${grpc} is the address of the service's own gRPC listener; behind a proxy, use the proxy's.`}
      </small>
    </div>
  );
}

async function readSystem(signal: AbortSignal): Promise<SystemJson> {
  const { system = {} } = await call("unified.admin.v1.SystemService/GetSystem", {}, signal);
  return system;
}

/** The result of `make`, or the error it throws. */
export function orError<T>(make: () => T): T | Error {
  try {
    return make();
  } catch (thrown) {
    return thrown instanceof Error ? thrown : new Error(String(thrown));
  }
}
