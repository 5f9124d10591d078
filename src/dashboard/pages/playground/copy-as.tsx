import { useState } from "preact/hooks";
import type { SystemJson } from "../../../../gen/unified/admin/v1/system_pb.js";
import { call } from "../../api.js";
import { prefix } from "../../location.js";
import { Loading, Problem } from "../../ui/feedback.js";
import { Copy } from "../../ui/secret.js";
import { Select } from "../../ui/select.js";
import { useData } from "../../use-data.js";
import { exampleOf, type Language } from "./examples.js";
import { grpcAddress } from "./grpc-address.js";
import type { PlaygroundRequest } from "./requests.js";
import { tried } from "./tried.js";

const titles: Readonly<Record<Language, string>> = {
  curl: "curl",
  Python: "Python",
  TypeScript: "TypeScript",
  gRPC: "gRPC, with buf curl",
};

/** The request as code to take elsewhere. */
export function CopyAs({ request }: { readonly request: () => PlaygroundRequest }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="card" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Copy as code</summary>
      {isOpen && <Example request={tried(request)} />}
    </details>
  );
}

function Example({ request }: { readonly request: PlaygroundRequest | Error }) {
  const [language, setLanguage] = useState<Language>("curl");
  const { value: system, error, reload } = useData(readSystem, []);
  if (request instanceof Error) return <p class="faint">{request.message}</p>;
  if (system === null) return error === null ? <Loading /> : <Problem error={error} onRetry={reload} />;
  const { grpc, isTls } = grpcAddress(system.listeners ?? {}, window.location.hostname);
  const text = exampleOf(language, request, { base: `${window.location.origin}${prefix}`, grpc, isTls });
  return (
    <div class="stack">
      <div class="row spread bottom">
        <Select label="Language" titles={titles} value={language} onChoose={setLanguage} />
        <Copy text={text} />
      </div>
      <pre>{text}</pre>
      <small>
        Set <code>UIS_API_KEY</code> to a key of the page API Keys.
        {language === "gRPC" &&
          ` ${grpc} is the service's own listener, unless a proxy gives it another address; run it where the folder proto of the package is.`}
      </small>
    </div>
  );
}

async function readSystem(signal: AbortSignal): Promise<SystemJson> {
  const { system = {} } = await call("unified.admin.v1.SystemService/GetSystem", {}, signal);
  return system;
}
