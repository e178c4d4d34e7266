// One accent colour, from nothing to full; a second one only where a difference has two signs.

export interface Colours {
  paper: [number, number, number];
  accent: [number, number, number];
  other: [number, number, number];
  ink: string;
  quiet: string;
  faint: string;
  accentText: string;
}

export function colours(): Colours {
  const style = getComputedStyle(document.documentElement);
  const get = (name: string) => style.getPropertyValue(name).trim();
  return {
    paper: rgb(get("--map-paper")),
    accent: rgb(get("--map-ink")),
    other: rgb(get("--map-other")),
    ink: get("--ink"),
    quiet: get("--quiet"),
    faint: get("--faint"),
    accentText: get("--accent"),
  };
}

function rgb(hex: string): [number, number, number] {
  const number = Number.parseInt(hex.slice(1), 16);
  return [number >> 16, (number >> 8) & 255, number & 255];
}

/** Colours for values from zero to one; small weights stay visible because the eye is given their square root. */
export function ramp(palette: Colours): Uint8ClampedArray {
  const table = new Uint8ClampedArray(256 * 3);
  for (let byte = 0; byte < 256; byte++) {
    const share = Math.sqrt(byte / 255);
    for (let channel = 0; channel < 3; channel++) {
      table[byte * 3 + channel] = palette.paper[channel] + (palette.accent[channel] - palette.paper[channel]) * share;
    }
  }
  return table;
}

/** Colours for values from minus one to one. */
export function diverging(value: number, palette: Colours): string {
  const share = Math.min(1, Math.sqrt(Math.abs(value)));
  const towards = value < 0 ? palette.other : palette.accent;
  const mixed = palette.paper.map((from, channel) => Math.round(from + (towards[channel] - from) * share));
  return `rgb(${mixed.join(" ")})`;
}

/** Black or white, whichever can be read better on a colour. */
export function readableOn(colour: string): string {
  const [red, green, blue] = colour.match(/\d+/g)!.map((part) => (Number(part) / 255) ** 2.2);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 ? "#000000" : "#ffffff";
}

export function onThemeChange(listener: () => void): void {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", listener);
}
