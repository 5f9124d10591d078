import { Moment } from "../../ui/moment.js";

/** When the next attempt is due. One whose time has come begins at any moment. */
export function Due({ at }: { readonly at: string | undefined }) {
  if (at !== undefined && new Date(at).getTime() <= Date.now()) return <time dateTime={at}>now</time>;
  return <Moment at={at} none="none" />;
}
