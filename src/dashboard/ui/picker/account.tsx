import { useAccountChoices } from "./known.js";
import { Picker } from "./picker.js";

export interface AccountChoiceProps {
  /** Empty: the default account. */
  readonly account: string;
  readonly onChoose: (account: string) => void;
}

/** Switches between accounts. Accounts are created by their first use, so other names are accepted. */
export function AccountChoice({ account, onChoose }: AccountChoiceProps) {
  const choices = useAccountChoices();
  return (
    <div class="account-choice">
      <Picker
        label="Account"
        choices={choices}
        value={account === "" ? "default" : account}
        onChange={(chosen) => onChoose(chosen === "default" ? "" : chosen)}
        acceptsOther
      />
    </div>
  );
}
