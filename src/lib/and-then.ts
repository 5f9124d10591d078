/** Goes on with a value, at once unless it has to be waited for: a step that waits for nothing costs no promise. */
export function andThen<T, R>(value: T | Promise<T>, use: (value: T) => R | Promise<R>): R | Promise<R> {
  return value instanceof Promise ? value.then(use) : use(value);
}
