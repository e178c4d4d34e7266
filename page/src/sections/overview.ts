// Part 2: all heads as small maps, by layer or sorted by a measure.

import { onThemeChange } from "../colour";
import { h, replace, section, select, tabs } from "../dom";
import { cells } from "../heatmap";
import { legend } from "../legend";
import type { Order, Store } from "../store";
import { headName } from "../input";
import type { Group, Measure, Payload } from "../types";
import { layerBytes } from "../weights";

const ORDERS: { value: Order; label: string }[] = [
  { value: "layer", label: "layer and head" },
  { value: "entropy", label: "entropy: how spread out the weights are" },
  { value: "distance", label: "distance: mean distance of query and key" },
  { value: "previous", label: "previous token: weight on the token before" },
  { value: "alignment", label: "alignment: how one-to-one the weights are" },
];
const UNITS: Record<Measure, string> = { entropy: "bits", distance: "tokens", previous: "", alignment: "" };
const SMALL = 72;

export function overview(payload: Payload, store: Store): HTMLElement {
  const grid = h("div", { class: "heads" });
  const draw = () => replace(grid, ...rows(payload, store));
  const choose = (group: number) => store.set({ group, layer: 0, head: 0, query: -1, key: -1, pinned: false });
  const kinds = tabs("Which attention", payload.groups.map((group) => group.title), store.state.group, choose);
  store.on(["group"], () => {
    kinds.set(store.state.group);
    draw();
  });
  store.on(["layer", "head"], () => mark(grid, store));
  onThemeChange(draw);
  draw();
  const controls = h("div", { class: "controls" }, payload.groups.length > 1 ? kinds.element : null, select("Sort by", ORDERS, store.state.order, (order) => { store.set({ order }); draw(); }), legend());
  return section("overview", "All heads", "Each small map is one head: rows are queries, columns are keys. Choose one to see it below.", controls, grid);
}

function rows(payload: Payload, store: Store): HTMLElement[] {
  const { order } = store.state;
  const group = payload.groups[store.state.group];
  const all = group.layers.flatMap((layer, at) => Array.from({ length: layer.heads }, (_, head) => ({ at, head })));
  if (order !== "layer") {
    const value = (one: { at: number; head: number }) => group.layers[one.at].measures[order][one.head];
    const sorted = [...all].sort((a, b) => value(b) - value(a));
    return [h("div", { class: "layer sorted" }, sorted.map((one) => small(group, store, one.at, one.head, order)))];
  }
  return group.layers.map((layer, at) =>
    h("div", { class: "layer" },
      h("span", { class: "name" }, `Layer ${at + 1}`),
      h("div", { class: "maps" }, Array.from({ length: layer.heads }, (_, head) => small(group, store, at, head, order)))),
  );
}

function small(group: Group, store: Store, at: number, head: number, order: Order): HTMLElement {
  const layer = group.layers[at];
  const size = layer.queries * layer.keys;
  const picture = cells(layerBytes(layer).subarray(head * size, (head + 1) * size), layer.queries, layer.keys, SMALL);
  picture.setAttribute("aria-hidden", "true");
  const { entropy, distance } = layer.measures;
  const caption = order === "layer" ? `head ${head + 1}` : `${at + 1}.${head + 1} · ${layer.measures[order][head].toFixed(2)} ${UNITS[order]}`;
  const chosen = store.state.layer === at && store.state.head === head;
  return h("button",
    { type: "button", class: "small", "aria-pressed": String(chosen), "data-layer": at, "data-head": head,
      "aria-label": `${headName(group, at, head)}: entropy ${entropy[head].toFixed(2)} bits, distance ${distance[head].toFixed(1)} tokens`,
      click: () => store.set({ layer: at, head }) },
    picture, h("span", {}, caption));
}

function mark(grid: HTMLElement, store: Store): void {
  for (const map of grid.querySelectorAll<HTMLElement>(".small")) {
    const chosen = Number(map.dataset.layer) === store.state.layer && Number(map.dataset.head) === store.state.head;
    map.setAttribute("aria-pressed", String(chosen));
  }
}

