import { byteText } from "../../lib/display-text.js";

/** Bytes of a download. */
export interface Received {
  readonly receivedBytes: number;
  /** Null while unknown. */
  readonly totalBytes: number | null;
}

/** The rate is measured over this time. */
const windowMs = 5_000;
/** Before this time a rate says nothing. */
const firstRateMs = 500;
/** Least time between two samples, which bounds their number. */
const sampleEveryMs = 100;

/** Progress of one download as text, with rate and time left. */
export class DownloadText {
  readonly #nowMs: () => number;
  #samples: { readonly atMs: number; readonly bytes: number }[] = [];

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** `[####------]  40 %  37.2 of 92.9 MB  12.1 MB/s  5 s left`, with a bar that fills the rest of `width` columns. */
  bar(received: Received, width: number): string {
    const { receivedBytes, totalBytes } = received;
    const parts = [amountText(received), ...this.#speed(received)];
    if (totalBytes === null) return parts.join("  ");
    const text = ` ${percentText(received)}  ${parts.join("  ")}`;
    const cells = Math.min(cellsMax, width - text.length - 2);
    if (cells < cellsMin) return text.trimStart();
    const full = Math.floor(shareOf(receivedBytes, totalBytes) * cells);
    return `[${"#".repeat(full)}${"-".repeat(cells - full)}]${text}`;
  }

  /** ` 40 %, 37.2 MB of 92.9 MB, 12.1 MB/s, 5 s left` */
  line(received: Received): string {
    return [receivedText(received), ...this.#speed(received)].join(", ");
  }

  /** Rate and time left, as far as they are known. */
  #speed({ receivedBytes, totalBytes }: Received): readonly string[] {
    const rate = this.#rate(receivedBytes);
    if (rate === null || rate <= 0 || receivedBytes === totalBytes) return [];
    const speed = `${byteText(Math.round(rate))}/s`;
    return totalBytes === null ? [speed] : [speed, `${durationText((totalBytes - receivedBytes) / rate)} left`];
  }

  /** Bytes per second over the last seconds; null while it is unknown. */
  #rate(bytes: number): number | null {
    const nowMs = this.#nowMs();
    // Without bytes the source has not answered yet; with fewer bytes another source has begun.
    if (bytes === 0 || bytes < (this.#samples.at(-1)?.bytes ?? 0)) this.#samples = [];
    if (bytes === 0) return null;
    const newestMs = this.#samples.at(-1)?.atMs ?? Number.NEGATIVE_INFINITY;
    if (nowMs - newestMs >= sampleEveryMs) this.#samples.push({ atMs: nowMs, bytes });
    while ((this.#samples[0]?.atMs ?? nowMs) < nowMs - windowMs && this.#samples.length > 2) this.#samples.shift();
    const oldest = this.#samples[0];
    if (oldest === undefined || nowMs - oldest.atMs < firstRateMs) return null;
    return ((bytes - oldest.bytes) / (nowMs - oldest.atMs)) * 1_000;
  }
}

const cellsMax = 30;
const cellsMin = 5;

/** ` 40 %, 37.2 MB of 92.9 MB`, as wide for each percentage */
export function receivedText(received: Received): string {
  const { receivedBytes, totalBytes } = received;
  if (totalBytes === null) return byteText(receivedBytes);
  return `${percentText(received)}, ${byteText(receivedBytes)} of ${byteText(totalBytes)}`;
}

/** `37.2 of 92.9 MB`, with each unit if they differ. */
function amountText({ receivedBytes, totalBytes }: Received): string {
  const received = byteText(receivedBytes);
  if (totalBytes === null) return received;
  const total = byteText(totalBytes);
  const unit = total.slice(total.indexOf(" "));
  return `${received.endsWith(unit) ? received.slice(0, -unit.length) : received} of ${total}`;
}

function percentText({ receivedBytes, totalBytes }: Received): string {
  return `${String(Math.floor(shareOf(receivedBytes, totalBytes ?? 0) * 100)).padStart(3)} %`;
}

/** 0 to 1; the whole of nothing is complete. */
export function shareOf(receivedBytes: number, totalBytes: number): number {
  return totalBytes === 0 ? 0 : Math.min(1, receivedBytes / totalBytes);
}

/** `5 s`, `2 min`, `1 h 5 min`; at least 1 s. */
export function durationText(seconds: number): string {
  if (seconds < 100) return `${Math.max(1, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
