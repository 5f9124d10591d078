import type { TokenList } from "../../../gen/unified/inference/v1/completion_pb.js";
import { fixedLimits } from "../../contract/limits.js";
import { checkInteger, checkNotEmpty } from "../call/field-checks.js";

/** Refuses lists of token ids that are empty or hold what cannot be an id in any vocabulary. */
export function validateTokenLists(lists: readonly TokenList[], param: string): void {
  for (const [i, { ids }] of lists.entries()) {
    const at = `${param}[${i}]`;
    checkNotEmpty(ids.length, at);
    for (const id of ids) checkInteger(id, at, 0, fixedLimits.int32Max);
  }
}
