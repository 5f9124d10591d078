import { useState } from "preact/hooks";
import { prefix } from "../../location.js";
import { Copy } from "../../ui/secret.js";
import { Select } from "../../ui/select.js";
import { type Address, exampleOf, type Language } from "./examples.js";
import type { PlaygroundRequest } from "./requests.js";
import { tried } from "./tried.js";

const titles: Readonly<Record<Language, string>> = {
  curl: "curl",
  Python: "Python",
  TypeScript: "TypeScript",
  gRPC: "gRPC, with buf curl",
};

const grpcPort = 50_051;

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
  if (request instanceof Error) return <p class="faint">{request.message}</p>;
  const text = exampleOf(language, request, addressHere());
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
          ` ${grpcPort} is the port of gRPC unless it was set to another; run it where the folder proto of the package is.`}
      </small>
    </div>
  );
}

function addressHere(): Address {
  const { origin, hostname, protocol } = window.location;
  return { base: `${origin}${prefix}`, grpc: `${hostname}:${grpcPort}`, isTls: protocol === "https:" };
}
