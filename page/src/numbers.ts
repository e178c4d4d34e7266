// From base64 to numbers, and from numbers to text.

export function bytes(text: string): Uint8Array {
  const raw = atob(text);
  const result = new Uint8Array(raw.length);
  for (let index = 0; index < raw.length; index++) result[index] = raw.charCodeAt(index);
  return result;
}

/** A text that was packed with zlib and written in base64. */
export function unpacked(text: string): Promise<string> {
  const packed = new Blob([bytes(text) as BlobPart]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(packed).text();
}

/** The bytes of a file in base64; nothing where they cannot be read. */
export function base64(file: File): Promise<string | null> {
  return new Promise((done) => {
    const reader = new FileReader();
    reader.onload = () => done(String(reader.result).split(",")[1] ?? "");
    reader.onerror = () => done(null);
    reader.readAsDataURL(file);
  });
}

export function floats(text: string): Float32Array {
  return new Float32Array(bytes(text).buffer);
}

export function signed(packed: { scale: number; bytes: string }): Float32Array {
  return Float32Array.from(bytes(packed.bytes), (byte) => ((byte - 127) / 127) * packed.scale);
}

/** Softmax over the allowed keys; zero where none is allowed. */
export function softmax(scores: ArrayLike<number>, allowed?: ArrayLike<number>): Float32Array {
  const result = new Float32Array(scores.length);
  let best = -Infinity;
  for (let index = 0; index < scores.length; index++) if (!allowed || allowed[index]) best = Math.max(best, scores[index]);
  if (best === -Infinity) return result;
  let total = 0;
  for (let index = 0; index < scores.length; index++) {
    if (allowed && !allowed[index]) continue;
    result[index] = Math.exp(scores[index] - best);
    total += result[index];
  }
  for (let index = 0; index < scores.length; index++) result[index] /= total;
  return result;
}

export interface Reweighed {
  probabilities: number[];
  kept: boolean[];
  rest: number;
}

/** The likely tokens after a temperature and a nucleus; the rest of the vocabulary counts in groups of alike tokens. */
export function reweigh(top: [string, number][], tail: [number, number][], temperature: number, nucleus: number): Reweighed {
  const best = top[0][1];
  const heads = top.map(([, logprob]) => Math.exp((logprob - best) / temperature));
  const groups = tail.map(([count, logprob]) => count * Math.exp((logprob - best) / temperature));
  const total = sum(heads) + sum(groups);
  const kept: boolean[] = [];
  let reached = 0;
  for (const weight of heads) {
    kept.push(kept.length === 0 || reached < nucleus);
    reached += weight / total;
  }
  const inside = nucleus >= 1 ? total : tailInside(heads, kept, tail, groups, total, nucleus);
  const probabilities = heads.map((weight, index) => (kept[index] ? weight / inside : 0));
  return { probabilities, kept, rest: Math.max(0, 1 - sum(probabilities)) };
}

/** The weight of all that the nucleus keeps, of the shown tokens and of the groups behind them. */
function tailInside(
  heads: number[], kept: boolean[], tail: [number, number][], groups: number[], total: number, nucleus: number,
): number {
  let inside = sum(heads.filter((_, index) => kept[index]));
  if (kept[kept.length - 1] === false) return inside;
  for (let index = 0; index < groups.length && inside / total < nucleus; index++) {
    const each = groups[index] / tail[index][0];
    inside += Math.min(tail[index][0], Math.ceil((nucleus * total - inside) / each)) * each;
  }
  return inside;
}

export function sum(values: ArrayLike<number>): number {
  let total = 0;
  for (let index = 0; index < values.length; index++) total += values[index];
  return total;
}

/** A large number in three digits: 26.5 thousand are 26.5 k. */
export function count(number: number): string {
  const [unit, name] = number >= 999.5e6 ? [1e9, " G"] : number >= 999.5e3 ? [1e6, " M"] : number >= 1e4 ? [1e3, " k"] : [1, ""];
  return unit === 1 ? number.toLocaleString("en") : `${(number / unit).toPrecision(3)}${name}`;
}

/** A log-probability; one that is almost certain is not called certain. */
export function logarithm(value: number): string {
  return value < 0 && value > -0.0005 ? "> −0.001" : short(value);
}

export function percent(p: number): string {
  if (p >= 0.9995) return p >= 1 ? "100 %" : "> 99.9 %";
  if (p >= 0.001 || p === 0) return p === 0 ? "0 %" : `${(100 * p).toFixed(1)} %`;
  return p < 1e-6 ? "< 0.0001 %" : `${(100 * p).toPrecision(1)} %`;
}

export function short(value: number): string {
  if (!Number.isFinite(value)) return value < 0 ? "−∞" : value > 0 ? "∞" : "–";
  const text = Math.abs(value) >= 1000 ? value.toPrecision(3) : value.toFixed(Math.abs(value) >= 100 ? 1 : Math.abs(value) >= 10 ? 2 : 3);
  return text.replace(/^-(?=[0.]+$)/, "").replace("-", "−");
}
