// An image with its patches: pointing at one asks with it, a click pins it, arrow keys walk over them.

import { h } from "../dom";
import { bytes } from "../numbers";
import type { Store } from "../store";
import type { Payload, Picture } from "../types";
import { matrix, type Matrix } from "../weights";

/** `whole` leaves the image as it is while nothing is chosen. */
export function picture(payload: Payload, store: Store, whole = false): HTMLElement {
  const image = payload.image!;
  const across = image.size / image.patch;
  const first = image.class_token ? 1 : 0;
  const patches = Array.from({ length: across * across }, (_, place) =>
    h("button", { type: "button", class: "patch", tabindex: place ? -1 : 0, "aria-label": `patch ${Math.floor(place / across) + 1}, ${(place % across) + 1}`,
      click: () => ask(payload, store, place + first, true),
      pointerenter: () => ask(payload, store, place + first, false) }),
  );
  const leave = () => { if (!store.state.pinned) store.set({ query: -1, key: -1 }); };
  const grid = h("div", { class: "patches", role: "group", "aria-label": "Patches; arrow keys walk over them, Enter pins, Escape lets go", pointerleave: leave,
    keydown: (event: KeyboardEvent) => walk(event, patches, across, () => store.set({ query: -1, key: -1, pinned: false })) }, patches);
  grid.style.gridTemplateColumns = `repeat(${across}, 1fr)`;
  shade(payload, store, patches, whole);
  return h("div", { class: "frame" }, drawing(image), grid);
}

function drawing(image: Picture): HTMLCanvasElement {
  const canvas = h("canvas", { class: "picture", width: image.size, height: image.size, role: "img", "aria-label": "The image, cut into patches" });
  const context = canvas.getContext("2d")!;
  const pixels = bytes(image.pixels);
  const data = context.createImageData(image.size, image.size);
  for (let place = 0; place < image.size * image.size; place++) {
    data.data.set(pixels.subarray(place * 3, place * 3 + 3), place * 4);
    data.data[place * 4 + 3] = 255;
  }
  context.putImageData(data, 0, 0);
  return canvas;
}

/** Makes a patch the query, in a group where patches are queries. */
function ask(payload: Payload, store: Store, query: number, pin: boolean): void {
  const fits = payload.groups[store.state.group]?.queries === "source";
  if (!pin && (!fits || store.state.pinned)) return; // pointing alone never leaves what is shown
  const group = fits ? store.state.group : payload.groups.findIndex((one) => one.queries === "source");
  if (group < 0) return;
  const layers = payload.groups[group].layers;
  const layer = Math.min(store.state.layer, layers.length - 1);
  store.set({ group, layer, head: Math.min(store.state.head, layers[layer].heads - 1), query, key: -1, pinned: pin });
}

/** One patch at a time is in the order of the Tab key. */
function walk(event: KeyboardEvent, patches: HTMLElement[], across: number, letGo: () => void): void {
  if (event.key === "Escape") return letGo();
  const moves: Record<string, number> = { ArrowUp: -across, ArrowDown: across, ArrowLeft: -1, ArrowRight: 1 };
  const now = patches.indexOf(event.target as HTMLElement);
  const next = patches[now + moves[event.key]];
  if (!next) return;
  event.preventDefault();
  patches[now].tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

/** What is looked at stands out, the rest fades; nothing does where the group does not look at patches. */
function shade(payload: Payload, store: Store, patches: HTMLElement[], whole: boolean): void {
  const first = payload.image!.class_token ? 1 : 0;
  const draw = () => {
    const { group, layer, head, weighting, query } = store.state;
    if (!payload.groups[group]) return;
    const { queries, keys } = payload.groups[group];
    const asks = query < 0 && first && queries === "source" ? 0 : query; // the class token asks for the whole image
    const weights = keys === "source" ? looks(matrix(payload, payload.groups[group], layer, head, weighting, false), asks) : null;
    const values = patches.map((_, place) => weights?.[place + first] ?? 0);
    const largest = Math.max(...values, 1e-9);
    patches.forEach((patch, place) => {
      patch.style.setProperty("--share", String(values[place] / largest));
      patch.style.setProperty("--faded", weights && !(whole && query < 0) ? `${Math.round(80 * (1 - Math.sqrt(values[place] / largest)))}%` : "0%");
      patch.classList.toggle("chosen", queries === "source" && place + first === asks);
    });
  };
  store.on(["group", "layer", "head", "weighting", "query"], draw);
  draw();
}

/** The weights of one query; of all of them on average where none is chosen. */
function looks(shown: Matrix, query: number): Float32Array {
  const wide = shown.columns.length;
  if (query >= 0) return shown.values.subarray(query * wide, (query + 1) * wide);
  const mean = new Float32Array(wide);
  shown.values.forEach((value, place) => { mean[place % wide] += value / shown.rows.length; });
  return mean;
}
