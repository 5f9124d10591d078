import { loadScript } from "../load-script.js";

/** What the ledger runs. Requests wait for these, so servers are given them before the first call. */
export const ledgerScripts = {
  admit: loadScript("admit", ["prelude", "windows"]),
  settle: loadScript("settle", ["prelude", "windows", "deliveries"]),
  chargeRefused: loadScript("charge-refused", ["prelude", "windows"]),
  resetWindow: loadScript("reset-window", ["prelude", "windows"]),
  inspect: loadScript("inspect", ["prelude", "windows"]),
  renew: loadScript("renew", ["prelude"]),
  sweep: loadScript("sweep", ["prelude"]),
  forget: loadScript("forget", ["prelude"]),
};
