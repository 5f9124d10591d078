/** Nano-dollars of one US dollar. */
const nanosOfDollar = 1_000_000_000n;
const decimalsMax = 9;
/** `50usd`, `0.25 USD` or `$50`. */
const amountForm = /^(?:\$(?<dollars>\d+(?:\.\d+)?)|(?<usd>\d+(?:\.\d+)?)\s*usd)$/i;

/** Nano-dollars of an amount such as `50usd` or `$0.25`; null for another text, and for parts of a nano-dollar. */
export function parseMoney(text: string): bigint | null {
  const { dollars, usd } = amountForm.exec(text.trim())?.groups ?? {};
  const [whole = "", decimals = ""] = (dollars ?? usd ?? "").split(".");
  if (whole === "" || decimals.length > decimalsMax) return null;
  return BigInt(whole) * nanosOfDollar + BigInt(decimals.padEnd(decimalsMax, "0"));
}

/** Digits of an amount below a cent that are shown. */
const smallDigits = 3;

/** An amount for people: `$12.35`; below a cent with three digits, `$0.000125`. */
export function moneyText(nanos: bigint): string {
  const cent = nanosOfDollar / 100n;
  if (nanos === 0n || nanos >= cent) {
    const cents = (nanos + cent / 2n) / cent;
    return `$${cents / 100n}.${String(cents % 100n).padStart(2, "0")}`;
  }
  const decimals = String(nanos).padStart(decimalsMax, "0");
  const firstDigit = decimals.search(/[1-9]/);
  return `$0.${decimals.slice(0, firstDigit + smallDigits).replace(/0+$/, "")}`;
}
