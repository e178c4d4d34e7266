// Part 3: one head, as lines and as a matrix; the two always show the same cell.

import { onThemeChange } from "../colour";
import { button, h, onWidth, replace, section, select } from "../dom";
import { legend } from "../legend";
import { LinesView } from "../linesview";
import { MatrixView, type Cell } from "../matrixview";
import { short } from "../numbers";
import type { Store, Weighting } from "../store";
import { again, type Ask } from "../server";
import type { Group, Payload } from "../types";
import { matrix, type Matrix } from "../weights";
import { picture } from "./picture";

export function head(payload: Payload, store: Store, ask: Ask): HTMLElement {
  let shown: Matrix | null = null;
  const point = (cell: Cell | null) => {
    if (!store.state.pinned) store.set(cell ?? { query: -1, key: -1 });
  };
  const pin = (cell: Cell | null) => store.set(cell ? { ...cell, pinned: true } : { query: -1, key: -1, pinned: false });
  const press = (cell: Cell | null) => pin(cell && store.state.pinned && same(cell, store.state) ? null : cell);
  const body = h("div", { class: "pair" });
  const half = () => (body.clientWidth > 760 ? body.clientWidth - 480 : body.clientWidth) || 560;
  const grid = new MatrixView("Matrix of one head. Arrow keys walk over the cells, Enter pins, Escape lets go.", { point, pin, press }, half);
  const lines = new LinesView("Lines of one head, from the tokens that ask on the left to those asked on the right", { point, pin, press }, () => Math.min(460, body.clientWidth || 460));
  const image = payload.image ? picture(payload, store) : null;
  body.append(...(image ? [image] : []), lines.element, grid.element);
  const readout = h("p", { class: "readout", role: "status", "aria-live": "polite" });
  const title = h("h3", { class: "which" });
  const mark = () => {
    if (!shown) return; // chosen before the first drawing, which will mark it
    const { query, key } = store.state;
    grid.mark({ query, key });
    if (!lines.element.hidden) lines.mark({ query, key });
    readout.textContent = told(shown, query, key, store.state.pinned);
  };
  const draw = () => {
    const { group, layer, head, weighting, words } = store.state;
    const own = payload.groups[group];
    shown = matrix(payload, own, layer, head, weighting, words);
    title.textContent = `${own.title}, layer ${layer + 1}, head ${head + 1}`;
    const within = (place: number, count: number) => (place < count ? place : -1);
    store.set({ query: within(store.state.query, shown.rows.length), key: within(store.state.key, shown.columns.length) });
    lines.element.hidden = image !== null && own.keys === "source";
    if (image) image.hidden = !lines.element.hidden;
    if (!lines.element.hidden) lines.show(shown);
    grid.show(shown);
    mark();
  };
  store.on(["group", "layer", "head", "weighting", "words"], draw);
  store.on(["query", "key", "pinned"], mark);
  onThemeChange(draw);
  onWidth(body, draw);
  const about = payload.image
    ? "Point at a patch or a cell: what the head looks at from there stands out. Click to pin it, Escape to let go; arrow keys walk over image and matrix."
    : "Left asks, right answers. Point at a token or a cell; click to pin it, click again or press Escape to let go. Arrow keys walk over the matrix.";
  return section("head", "One head", about,
    controls(payload, store, switches(payload, store, ask)), title, readout, body);
}

function same(one: Cell, other: Cell): boolean {
  return one.query === other.query && one.key === other.key;
}

export function told(shown: Matrix, query: number, key: number, pinned: boolean): string {
  if (query < 0 && key < 0) return "Point at a cell to read its weight.";
  const { rows, columns, values } = shown;
  const at = (row: number, column: number) => values[row * columns.length + column];
  const end = pinned ? " (pinned)" : "";
  if (query >= 0 && key >= 0) return `“${rows[query]}” → “${columns[key]}”: ${digits(at(query, key), shown.exact)}${end}`;
  const places = Array.from({ length: query >= 0 ? columns.length : rows.length }, (_, place) => place);
  const value = (place: number) => (query >= 0 ? at(query, place) : at(place, key));
  const best = places.sort((a, b) => value(b) - value(a)).slice(0, 4);
  const list = best.map((place) => `“${query >= 0 ? columns[place] : rows[place]}” ${digits(value(place), shown.exact)}`).join(", ");
  return query >= 0 ? `“${rows[query]}” looks at ${list}${end}` : `“${columns[key]}” is looked at by ${list}${end}`;
}

function digits(value: number, exact: boolean): string {
  return exact ? value.toFixed(4) : `${short(value)} ± 0.002`;
}

function controls(payload: Payload, store: Store, more: HTMLElement): HTMLElement {
  const weighting = h("span", {});
  const offer = () => {
    const choices = weightings(payload.groups[store.state.group]);
    if (!choices.some((choice) => choice.value === store.state.weighting)) store.set({ weighting: "raw" });
    replace(weighting, select("Weighting", choices, store.state.weighting, (chosen) => store.set({ weighting: chosen })));
  };
  store.on(["group"], offer);
  offer();
  const words = h("input", { type: "checkbox", checked: store.state.words, change: (event: Event) =>
    store.set({ words: (event.target as HTMLInputElement).checked, query: -1, key: -1, pinned: false }) });
  const move = (by: number) => {
    const layers = payload.groups[store.state.group].layers;
    const all = layers.flatMap((layer, at) => Array.from({ length: layer.heads }, (_, one) => [at, one]));
    const now = all.findIndex(([at, one]) => at === store.state.layer && one === store.state.head);
    const [layer, next] = all[(now + by + all.length) % all.length];
    store.set({ layer, head: next });
  };
  return h("div", { class: "controls" },
    h("span", { class: "buttons" }, button("←", () => move(-1), { "aria-label": "previous head" }), button("→", () => move(1), { "aria-label": "next head" })),
    weighting,
    payload.image || !inPieces(payload) ? null : h("label", { class: "field check" }, words, h("span", {}, "join pieces into words")),
    legend(),
    more,
  );
}

/** The weightings that a kind of attention has. */
function weightings(group: Group): { value: Weighting; label: string }[] {
  const all: { value: Weighting; label: string; known: boolean }[] = [
    { value: "raw", label: "raw weights", known: true },
    { value: "rollout", label: "rollout: through all layers up to this one", known: group.rollout.length > 0 },
    { value: "norm", label: "value norm: weight × length of what it adds", known: group.layers.every((layer) => layer.norms) },
  ];
  return all.filter((one) => one.known);
}

/** Whether any word has several pieces that could be joined. */
function inPieces({ sentences }: Payload): boolean {
  return [sentences.source, sentences.target].some((one) => one !== null && one.texts.length < one.tokens.length);
}

/** Heads of the whole model that can be switched off; it takes the model itself, so only the live page can. */
function switches(payload: Payload, store: Store, ask: Ask): HTMLElement {
  const off = (payload.options.off ?? []) as [string, number][];
  const box = h("input", { type: "checkbox", id: "switch-head", disabled: !payload.live });
  const told = h("span", {});
  const trouble = h("p", { class: "failed", role: "status" });
  const send = (heads: [string, number][]) => {
    void ask({ model: payload.about.run, ...again(payload), target: payload.target, options: { off: heads } }).then((refused) => {
      if (!refused) return;
      trouble.textContent = refused;
      draw();
    });
  };
  const draw = () => {
    const { group, layer, head } = store.state;
    const module = payload.groups[group].layers[layer].module;
    box.checked = off.some(([name, number]) => name === module && number === head);
    told.textContent = payload.live ? "switch this head off and run again" : "switch this head off (needs the model: regard serve)";
  };
  box.addEventListener("change", () => {
    const { group, layer, head } = store.state;
    const module = payload.groups[group].layers[layer].module;
    const others = off.filter(([name, number]) => name !== module || number !== head);
    send(box.checked ? [...others, [module, head]] : others);
  });
  store.on(["group", "layer", "head"], draw);
  draw();
  const active = off.length
    ? h("p", { class: "verdict failed" }, `Switched off: ${off.map(([name, number]) => `${name}, head ${number + 1}`).join("; ")}. `, payload.live ? button("switch all on again", () => send([]), { class: "more", id: "switch-all" }) : null)
    : null;
  return h("div", { class: "switches" }, active, payload.about.attends ? h("label", { class: "field check" }, box, told) : null, trouble);
}
