// What the colours mean: a strip from no weight to all of it.

import { colours, onThemeChange, ramp } from "./colour";
import { h } from "./dom";

const WIDE = 96;

export function legend(): HTMLElement {
  const strip = h("canvas", { width: WIDE, height: 1, role: "img", "aria-label": "Colours of weights, from 0 to 1" });
  const draw = () => {
    const context = strip.getContext("2d")!;
    const table = ramp(colours());
    for (let x = 0; x < WIDE; x++) {
      const at = Math.round((255 * x) / (WIDE - 1)) * 3;
      context.fillStyle = `rgb(${table[at]} ${table[at + 1]} ${table[at + 2]})`;
      context.fillRect(x, 0, 1, 1);
    }
  };
  onThemeChange(draw);
  draw();
  return h("span", { class: "legend" }, h("span", {}, "weight 0"), strip, h("span", {}, "1"));
}
