// An image with its patches: pointing at one makes it the query, a click pins it, arrow keys move over them.

import { h } from "../dom";
import { bytes } from "../numbers";
import type { Store } from "../store";
import type { ImagePatches, Payload } from "../types";
import { matrix, type Matrix } from "../weights";

/** `whole` leaves the image as it is while nothing is chosen. */
export function picture(payload: Payload, store: Store, whole = false): HTMLElement {
  const image = payload.image!;
  const across = image.size / image.patch;
  const first = image.class_token ? 1 : 0;
  const patches = Array.from({ length: across * across }, (_, index) =>
    h("button", { type: "button", class: "patch", tabindex: index ? -1 : 0, "aria-label": `patch ${Math.floor(index / across) + 1}, ${(index % across) + 1}`,
      click: () => setQuery(payload, store, index + first, true),
      pointerenter: () => setQuery(payload, store, index + first, false) }),
  );
  const leave = () => { if (!store.state.pinned) store.set({ query: -1, key: -1 }); };
  const grid = h("div", { class: "patches", role: "group", "aria-label": "Patches; arrow keys move over them, Enter pins, Escape unpins", pointerleave: leave,
    keydown: (event: KeyboardEvent) => walk(event, patches, across, () => store.set({ query: -1, key: -1, pinned: false })) }, patches);
  grid.style.gridTemplateColumns = `repeat(${across}, 1fr)`;
  shade(payload, store, patches, whole);
  return h("div", { class: "frame" }, drawing(image), grid);
}

function drawing(image: ImagePatches): HTMLCanvasElement {
  const canvas = h("canvas", { class: "picture", width: image.size, height: image.size, role: "img", "aria-label": "The image, cut into patches" });
  const context = canvas.getContext("2d")!;
  const pixels = bytes(image.pixels);
  const data = context.createImageData(image.size, image.size);
  for (let index = 0; index < image.size * image.size; index++) {
    data.data.set(pixels.subarray(index * 3, index * 3 + 3), index * 4);
    data.data[index * 4 + 3] = 255;
  }
  context.putImageData(data, 0, 0);
  return canvas;
}

/** Makes a patch the query, in a group where patches are queries. */
function setQuery(payload: Payload, store: Store, query: number, pin: boolean): void {
  const fits = payload.groups[store.state.group]?.queries === "source";
  if (!pin && (!fits || store.state.pinned)) return; // pointing alone never changes the group
  const group = fits ? store.state.group : payload.groups.findIndex((one) => one.queries === "source");
  if (group < 0) return;
  const layers = payload.groups[group].layers;
  const layer = Math.min(store.state.layer, layers.length - 1);
  store.set({ group, layer, head: Math.min(store.state.head, layers[layer].heads - 1), query, key: -1, pinned: pin });
}

/** One patch at a time is in the order of the Tab key. */
function walk(event: KeyboardEvent, patches: HTMLElement[], across: number, unpin: () => void): void {
  if (event.key === "Escape") return unpin();
  const moves: Record<string, number> = { ArrowUp: -across, ArrowDown: across, ArrowLeft: -1, ArrowRight: 1 };
  const now = patches.indexOf(event.target as HTMLElement);
  const next = patches[now + moves[event.key]];
  if (!next) return;
  event.preventDefault();
  patches[now].tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

/** Patches with much weight stand out, the rest fades; only in groups whose keys are patches. */
function shade(payload: Payload, store: Store, patches: HTMLElement[], whole: boolean): void {
  const first = payload.image!.class_token ? 1 : 0;
  const draw = () => {
    const { group, layer, head, weighting, query } = store.state;
    if (!payload.groups[group]) return;
    const { queries, keys } = payload.groups[group];
    const shownQuery = query < 0 && first && queries === "source" ? 0 : query; // the class token by default
    const weights = keys === "source" ? queryWeights(matrix(payload, payload.groups[group], layer, head, weighting, false), shownQuery) : null;
    const values = patches.map((_, index) => weights?.[index + first] ?? 0);
    const largest = Math.max(...values, 1e-9);
    patches.forEach((patch, index) => {
      patch.style.setProperty("--share", String(values[index] / largest));
      patch.style.setProperty("--faded", weights && !(whole && query < 0) ? `${Math.round(80 * (1 - Math.sqrt(values[index] / largest)))}%` : "0%");
      patch.classList.toggle("chosen", queries === "source" && index + first === shownQuery);
    });
  };
  store.on(["group", "layer", "head", "weighting", "query"], draw);
  draw();
}

/** The weights of one query; of all of them on average where none is chosen. */
function queryWeights(shown: Matrix, query: number): Float32Array {
  const wide = shown.columns.length;
  if (query >= 0) return shown.values.subarray(query * wide, (query + 1) * wide);
  const mean = new Float32Array(wide);
  shown.values.forEach((value, index) => { mean[index % wide] += value / shown.rows.length; });
  return mean;
}
