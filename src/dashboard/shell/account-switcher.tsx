import { go, useLocation } from "../lib/location.js";
import { useAccountChoices } from "../ui/picker/known.js";
import { Picker } from "../ui/picker/picker.js";

/**
 * Switches the account that a page shows: `account` in its URL, absent for the default one. Accounts are created by their
 * first use, so other names are accepted.
 */
export function AccountSwitcher({ page }: { readonly page: string }) {
  const { query } = useLocation();
  const choices = useAccountChoices();
  const choose = (account: string): void =>
    go(page, { ...Object.fromEntries(query), account: account === "default" ? "" : account });
  return (
    <div class="account-switcher">
      <Picker
        label="Account"
        choices={choices}
        value={query.get("account") ?? "default"}
        onChange={choose}
        acceptsOther
      />
    </div>
  );
}
