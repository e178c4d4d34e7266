// Part 3: one head, as lines and as a matrix of weights; both mark the same cell.

import { onThemeChange } from "../colour";
import { button, h, onWidth, replace, section, select } from "../dom";
import { legend } from "../legend";
import { LinesView } from "../linesview";
import { MatrixView, type Cell } from "../matrixview";
import { short } from "../numbers";
import type { Store, Weighting } from "../store";
import { headName, headOfModule } from "../input";
import { sameInput, type Submit } from "../server";
import type { Group, Payload } from "../types";
import { matrix, type Matrix } from "../weights";
import { picture } from "./picture";

export function head(payload: Payload, store: Store, submit: Submit): HTMLElement {
  let shown: Matrix | null = null;
  const point = (cell: Cell | null) => {
    if (!store.state.pinned) store.set(cell ?? { query: -1, key: -1 });
  };
  const pin = (cell: Cell | null) => store.set(cell ? { ...cell, pinned: true } : { query: -1, key: -1, pinned: false });
  const press = (cell: Cell | null) => pin(cell && store.state.pinned && same(cell, store.state) ? null : cell);
  const body = h("div", { class: "pair" });
  const half = () => (body.clientWidth > 760 ? body.clientWidth - 480 : body.clientWidth) || 560;
  const grid = new MatrixView("Weights of one head. Arrow keys move over the cells, Enter pins, Escape unpins.", { point, pin, press }, half);
  const lines = new LinesView("Lines of one head, from queries on the left to keys on the right", { point, pin, press }, () => Math.min(460, body.clientWidth || 460));
  const image = payload.image ? picture(payload, store) : null;
  body.append(...(image ? [image] : []), lines.element, grid.element);
  const readout = h("p", { class: "readout", role: "status", "aria-live": "polite" });
  const title = h("h3", { class: "which" });
  const mark = () => {
    if (!shown) return; // chosen before the first drawing, which will mark it
    const { query, key } = store.state;
    grid.mark({ query, key });
    if (!lines.element.hidden) lines.mark({ query, key });
    readout.textContent = readoutText(shown, query, key, store.state.pinned);
  };
  const draw = () => {
    const { group, layer, head, weighting, words } = store.state;
    const selected = payload.groups[group];
    shown = matrix(payload, selected, layer, head, weighting, words);
    title.textContent = headName(selected, layer, head);
    const within = (index: number, count: number) => (index < count ? index : -1);
    store.set({ query: within(store.state.query, shown.rows.length), key: within(store.state.key, shown.columns.length) });
    lines.element.hidden = image !== null && selected.keys === "source";
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
    ? "Point at a patch or a cell: the patches that this query attends to stand out. Click pins it, Escape unpins; arrow keys move over image and matrix."
    : "Queries on the left, keys on the right. Point at a token or a cell; click pins it, another click or Escape unpins. Arrow keys move over the matrix.";
  return section("head", "One head", about,
    controls(payload, store, ablation(payload, store, submit)), title, readout, body);
}

function same(one: Cell, other: Cell): boolean {
  return one.query === other.query && one.key === other.key;
}

export function readoutText(shown: Matrix, query: number, key: number, pinned: boolean): string {
  if (query < 0 && key < 0) return "Point at a cell to read its weight.";
  const { rows, columns, values } = shown;
  const at = (row: number, column: number) => values[row * columns.length + column];
  const end = pinned ? " (pinned)" : "";
  if (query >= 0 && key >= 0) return `“${rows[query]}” → “${columns[key]}”: ${digits(at(query, key), shown.exact)}${end}`;
  const indices = Array.from({ length: query >= 0 ? columns.length : rows.length }, (_, index) => index);
  const value = (index: number) => (query >= 0 ? at(query, index) : at(index, key));
  const best = indices.sort((a, b) => value(b) - value(a)).slice(0, 4);
  const list = best.map((index) => `“${query >= 0 ? columns[index] : rows[index]}” ${digits(value(index), shown.exact)}`).join(", ");
  return query >= 0 ? `“${rows[query]}” attends to ${list}${end}` : `“${columns[key]}” is attended to by ${list}${end}`;
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

function weightings(group: Group): { value: Weighting; label: string }[] {
  const all: { value: Weighting; label: string; known: boolean }[] = [
    { value: "raw", label: "raw weights", known: true },
    { value: "rollout", label: "attention rollout: all layers up to this one", known: group.rollout.length > 0 },
    { value: "norm", label: "value norm: weight × norm of the projected value", known: group.layers.every((layer) => layer.norms) },
  ];
  return all.filter((one) => one.known);
}

/** Whether any word has several pieces that could be joined. */
function inPieces({ sentences }: Payload): boolean {
  return [sentences.source, sentences.target].some((one) => one !== null && one.texts.length < one.tokens.length);
}

/** Ablation of heads runs the model again, so only the live page can. */
function ablation(payload: Payload, store: Store, submit: Submit): HTMLElement {
  const off = payload.options.off;
  const box = h("input", { type: "checkbox", id: "switch-head", disabled: !payload.live });
  const label = h("span", {});
  const failure = h("p", { class: "failed", role: "status" });
  const send = (heads: [string, number][]) => {
    void submit({ model: payload.about.run, ...sameInput(payload), target: payload.target, options: { off: heads } }).then((message) => {
      if (!message) return;
      failure.textContent = message;
      draw();
    });
  };
  const draw = () => {
    const { group, layer, head } = store.state;
    const module = payload.groups[group].layers[layer].module;
    box.checked = off.some(([name, number]) => name === module && number === head);
    label.textContent = payload.live ? "switch this head off and run again" : "switch this head off (needs the model: regard serve)";
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
    ? h("p", { class: "verdict failed" }, `Switched off: ${off.map(([name, number]) => headOfModule(payload, name, number)).join("; ")}. `, payload.live ? button("switch all on again", () => send([]), { class: "more", id: "switch-all" }) : null)
    : null;
  return h("div", { class: "switches" }, active, payload.about.attends ? h("label", { class: "field check" }, box, label) : null, failure);
}
