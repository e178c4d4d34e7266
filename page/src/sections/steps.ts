// Part 4: the four steps of attention, with the numbers of the chosen head and query.

import { onThemeChange } from "../colour";
import { button, h, replace, section } from "../dom";
import { strip } from "../heatmap";
import { short } from "../numbers";
import type { Store } from "../store";
import { marks, plain } from "../input";
import type { Layer, Payload } from "../types";
import { exactRow, labels, vectors, type ExactRow, type HeadVectors } from "../weights";

const FIRST = 16;

export function steps(payload: Payload, store: Store): HTMLElement {
  const body = h("div", { class: "steps" });
  let all = false;
  const draw = () => {
    const { group, layer, head } = store.state;
    const selected = payload.groups[group];
    const query = token(payload, store);
    const more = () => { all = !all; draw(); };
    replace(body, ...table(selected.layers[layer], labels(payload, selected, selected.layers[layer]), head, query, all, more));
  };
  store.on(["group", "layer", "head", "query", "words"], draw);
  onThemeChange(draw);
  draw();
  return section("steps", "Four steps", "Project to query, key and value; score by q·k; softmax; weighted sum of the values: what the chosen head computes for the chosen query." + marks(payload), body);
}

/** The query: the pinned or pointed token; where words are joined, its first piece; else “it”, the first of an image, or the last. */
function token(payload: Payload, store: Store): number {
  const { group, layer, query, words } = store.state;
  const selected = payload.groups[group];
  const rows = labels(payload, selected, selected.layers[layer]).rows;
  if (query < 0) return payload.image && selected.queries === "source" ? 0 : defaultQuery(selected.layers[layer], rows.tokens);
  return words ? rows.words.indexOf(query) : query;
}

function defaultQuery(layer: Layer, tokens: string[]): number {
  const it = tokens.findIndex((text) => text.replace("▁", "") === "it");
  const known = layer.steps.queries;
  return known.includes(it) ? it : known[known.length - 1];
}

function table(
  layer: Layer, names: ReturnType<typeof labels>, head: number, query: number, all: boolean, more: () => void,
): (HTMLElement | null)[] {
  const row = exactRow(layer, head, query);
  if (!row) {
    const known = layer.steps.queries.map((index) => names.rows.tokens[index]).join(", ");
    return [h("p", { class: "hint" }, `To keep the page small, exact scores are here for these only: ${known}. A page about fewer tokens has them all.`)];
  }
  const numbers = vectors(layer, head, query);
  const order = names.columns.tokens.map((_, key) => key);
  const shown = all || order.length <= FIRST ? order : [...order].sort((a, b) => row.weights[b] - row.weights[a]).slice(0, FIRST).sort((a, b) => a - b);
  return [
    projected(numbers, names.rows.tokens[query]),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Steps for every key" },
      h("table", { class: "numbers" }, heading(layer, numbers), h("tbody", {}, shown.map((key) => line(key, names.columns.tokens[key], row, numbers))), footing(row, numbers, names.rows.tokens[query]))),
    order.length > FIRST ? button(all ? "Show the largest weights only" : `Show all ${order.length} keys`, more, { class: "more" }) : null,
    numbers ? null : h("p", { class: "hint" }, layer.norms ? "The vectors themselves are left out to keep this page small; a page about fewer tokens has them." : "This attention does not make its scores from a query and a key alone, so there are no vectors to show."),
  ];
}

function projected(numbers: HeadVectors | null, text: string): HTMLElement | null {
  if (!numbers?.query) return null;
  const first = Array.from(numbers.query.slice(0, 6), short).join("  ");
  return h("p", { class: "vector" }, h("span", { class: "formula" }, h("b", {}, "1 "), "query of “", h("bdi", {}, plain(text)), "”: q = W", h("sub", {}, "q"), "x"),
    strip(numbers.query, largest([numbers.query]), `query vector of ${text}`), h("span", { class: "digits" }, `${first} … (${numbers.shown < numbers.width ? `first ${numbers.shown} of ` : ""}${numbers.width} dimensions)`));
}

function heading(layer: Layer, numbers: HeadVectors | null): HTMLElement {
  const cell = (step: string, what: string, left = false) => h("th", { scope: "col", class: left ? "left" : null }, h("b", {}, step), ` ${what}`);
  return h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "key"),
    numbers ? cell("1", "kⱼ", true) : null, cell("2", layer.norms ? "q·kⱼ" : "score"), cell("2", scaling(layer, numbers)), cell("3", "masked"), cell("3", "softmax αⱼ", true),
    numbers ? cell("4", "αⱼ·vⱼ", true) : null));
}

/** The scale of the scores, as √ of the head width where it is that. */
function scaling(layer: Layer, numbers: HeadVectors | null): string {
  if (layer.scale === 1) return "unscaled";
  const usual = numbers && Math.abs(layer.scale * Math.sqrt(numbers.width) - 1) < 1e-4;
  return usual ? `÷ √${numbers.width}` : `× ${short(layer.scale)}`;
}

function line(key: number, text: string, row: ExactRow, numbers: HeadVectors | null): HTMLElement {
  const allowed = row.allowed[key] > 0;
  const bar = h("span", { class: "bar" });
  bar.style.width = `${row.weights[key] * 100}px`;
  const top = numbers ? largest([numbers.value(key)]) : 1;
  const added = numbers ? Float32Array.from(numbers.value(key), (value) => value * row.weights[key]) : null;
  return h("tr", { class: allowed ? "" : "masked" },
    h("th", { scope: "row", title: text }, h("bdi", {}, text)),
    numbers ? h("td", {}, strip(numbers.key(key), largest([numbers.key(key)]), `key vector of ${text}`)) : null,
    h("td", { "data-step": "scores" }, short(row.scores[key])),
    h("td", { "data-step": "scaled" }, short(row.scaled[key])),
    h("td", { "data-step": "masked" }, allowed ? short(row.scaled[key]) : "−∞"),
    h("td", { class: "weight", "data-step": "weights" }, h("span", { class: "value" }, row.weights[key].toFixed(4)), bar),
    added ? h("td", {}, strip(added, top, `weighted value of ${text}`)) : null);
}

function footing(row: ExactRow, numbers: HeadVectors | null, text: string): HTMLElement | null {
  if (!numbers) return null;
  const total = new Float32Array(numbers.shown);
  row.weights.forEach((weight, key) => numbers.value(key).forEach((value, index) => (total[index] += weight * value)));
  const first = Array.from(total.slice(0, 6), short).join("  ");
  return h("tfoot", {}, h("tr", {}, h("th", { scope: "row" }, "sum"), h("td", { colspan: 5 }, h("span", { class: "digits" }, "output at “", h("bdi", {}, plain(text)), `”: y = Σ αⱼ vⱼ =  ${first} …`)),
    h("td", {}, strip(total, largest([total]), "the weighted sum"))));
}

function largest(vectors: Float32Array[]): number {
  let top = 1e-9;
  for (const vector of vectors) for (const value of vector) top = Math.max(top, Math.abs(value));
  return top;
}
