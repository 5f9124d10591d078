/**
 * A function without effects that remembers its last result: for what most requests ask alike, such as how the id of a
 * model is written. Arguments are compared by `===`.
 */
export function rememberLast<A, R>(work: (argument: A) => R): (argument: A) => R {
  let last: { readonly argument: A; readonly result: R } | null = null;
  return (argument) => {
    if (last === null || last.argument !== argument) last = { argument, result: work(argument) };
    return last.result;
  };
}
