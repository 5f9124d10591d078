import { useState } from "preact/hooks";
import { Dialog } from "../../ui/dialog.js";
import { Field, Form, textOf } from "../../ui/form.js";
import { startPull, usePull } from "./pulls.js";

/** Asks where a model is to be had, and begins to pull it. After one that came to nothing: what was asked for then. */
export function PullForm({ onClose }: { readonly onClose: () => void }) {
  const last = usePull();
  const before = last?.state === "failed" || last?.state === "stopped" ? last.request : {};
  const [source, setSource] = useState(before.source ?? "");
  const [id, setId] = useState(before.id ?? "");
  const [sha256, setSha256] = useState(before.sha256 ?? "");
  const send = async (): Promise<void> => {
    void startPull({ source: source.trim(), id: id.trim(), sha256: sha256.trim() });
    onClose();
  };
  return (
    <Dialog title="Pull a model" onClose={onClose}>
      <Form verb="Pull" send={send} onCancel={onClose}>
        <Field
          label="Source"
          name="source"
          hint="hf:owner/repo/file.gguf@revision, an https:// address, pypi:name==version/member or file:/path."
        >
          {(ids) => <Text ids={ids} value={source} onType={setSource} isRequired />}
        </Field>
        <Field label="Id" name="id" hint="What requests will name. Empty: made of the name of the file.">
          {(ids) => <Text ids={ids} value={id} onType={setId} />}
        </Field>
        <Field label="SHA-256" name="sha256" hint="What the file must have. Empty: not checked, which will be said.">
          {(ids) => <Text ids={ids} value={sha256} onType={setSha256} />}
        </Field>
      </Form>
    </Dialog>
  );
}

interface TextProps {
  readonly ids: object;
  readonly value: string;
  readonly onType: (text: string) => void;
  readonly isRequired?: boolean;
}

function Text({ ids, value, onType, isRequired = false }: TextProps) {
  return (
    <input
      {...ids}
      type="text"
      autocomplete="off"
      spellcheck={false}
      required={isRequired}
      value={value}
      onInput={(event) => onType(textOf(event))}
    />
  );
}
