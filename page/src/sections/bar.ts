// Part 1: the sentence bar. Live, editing it runs the model again; in a file, the text is what it was.

import { button, h } from "../dom";
import { bytes } from "../numbers";
import type { Store } from "../store";
import type { Payload, Side } from "../types";
import { matrix } from "../weights";

export interface Request {
  model: string;
  text: string;
  target: string | null;
  options?: Record<string, unknown>;
}

/** Asks the server for another look; a sentence where it refuses. */
export type Ask = (request: Request) => Promise<string | null>;

export function bar(payload: Payload, store: Store, ask: Ask): HTMLElement {
  return h(
    "section",
    { id: "sentence", class: "bar", "aria-label": "Sentence" },
    payload.image ? picture(payload, store) : null,
    sentence(payload, store, "source", payload.shape === "label" ? "The model reads" : "It reads"),
    sentence(payload, store, "target", payload.target === null ? "It writes" : "It is made to write"),
    payload.generation.classes ? verdict(payload) : null,
    payload.live ? form(payload, ask) : fixed(),
  );
}

function sentence(payload: Payload, store: Store, side: Side, title: string): HTMLElement | null {
  const own = payload.sentences[side];
  if (!own || (payload.image && side === "source")) return null;
  const kind = (text: string, word: number) => {
    const first = own.words.indexOf(word);
    const joins = spaced && !/^[▁<↵]/.test(own.tokens[first]) && word > 0;
    const given = side === "target" && first < payload.given;
    return ["word", joins && "joins", (given || /^<\w+>$/.test(text)) && "given"].filter(Boolean).join(" ");
  };
  const spaced = own.tokens.some((token) => token.includes("▁"));
  const words = own.texts.map((text, word) =>
    h("button", { type: "button", class: kind(text, word), "data-side": side, "data-word": word, click: () => look(payload, store, side, word) }, text),
  );
  return h("div", { class: "sentence" }, h("span", { class: "side" }, title), h("p", { class: "words" }, words));
}

/** Pins a word as the query, in a group where it is one. */
function look(payload: Payload, store: Store, side: Side, word: number): void {
  const own = payload.sentences[side];
  const fits = (place: number) => payload.groups[place]?.queries === side;
  const group = fits(store.state.group) ? store.state.group : payload.groups.findIndex((one) => one.queries === side);
  if (group < 0 || !own) return;
  const query = store.state.words ? word : own.words.indexOf(word);
  const layers = payload.groups[group].layers;
  const layer = Math.min(store.state.layer, layers.length - 1);
  store.set({ group, layer, head: Math.min(store.state.head, layers[layer].heads - 1), query, key: -1, pinned: true });
}

function verdict(payload: Payload): HTMLElement {
  const [label, p] = payload.generation.classes![0];
  return h("div", { class: "sentence" }, h("span", { class: "side" }, "It answers"), h("p", { class: "words" }, h("strong", {}, label), ` with probability ${p.toFixed(3)}`));
}

function fixed(): HTMLElement {
  return h("p", { class: "hint" }, "This page is a file, so its text is fixed. Run ", h("code", {}, "regard serve RUN"), " to edit it, or ", h("code", {}, "regard look RUN “another text”"), " for another page.");
}

function form(payload: Payload, ask: Ask): HTMLElement {
  const text = h("textarea", { rows: 2, spellcheck: "false", id: "edit-text" }, payload.text);
  const target = h("input", { type: "text", id: "edit-target", value: payload.target ?? "", placeholder: "its own words" });
  const names = payload.models?.length ? payload.models : [payload.about.run];
  const model = h("select", { id: "edit-model" }, names.map((name) => h("option", { value: name, selected: name === payload.about.run }, name)));
  const status = h("p", { class: "status", role: "status" });
  const send = async (event: Event) => {
    event.preventDefault();
    status.textContent = "Looking …";
    const forced = payload.shape === "label" || !target.value.trim() ? null : target.value;
    status.textContent = (await ask({ model: model.value, text: text.value, target: forced })) ?? "";
  };
  return h(
    "form",
    { class: "edit", submit: send },
    h("label", { class: "field wide" }, h("span", {}, payload.shape === "text" ? "Prompt" : "Text"), text),
    payload.shape === "label" ? null : h("label", { class: "field wide" }, h("span", {}, "Forced target"), target),
    h("label", { class: "field" }, h("span", {}, "Model"), model),
    button("Look", () => {}, { type: "submit", class: "primary" }),
    status,
  );
}

/** The image with its patches; pointing at a patch picks it as the query. */
function picture(payload: Payload, store: Store): HTMLElement {
  const image = payload.image!;
  const canvas = h("canvas", { class: "picture", width: image.size, height: image.size, role: "img", "aria-label": "The image, cut into patches" });
  const context = canvas.getContext("2d")!;
  const pixels = bytes(image.pixels);
  const data = context.createImageData(image.size, image.size);
  for (let place = 0; place < image.size * image.size; place++) {
    data.data.set(pixels.subarray(place * 3, place * 3 + 3), place * 4);
    data.data[place * 4 + 3] = 255;
  }
  context.putImageData(data, 0, 0);
  const across = image.size / image.patch;
  const first = image.class_token ? 1 : 0;
  const patches = Array.from({ length: across * across }, (_, place) =>
    h("button", { type: "button", class: "patch", "aria-label": `patch ${Math.floor(place / across) + 1}, ${(place % across) + 1}`,
      click: () => pickPatch(payload, store, place + first) }),
  );
  const grid = h("div", { class: "patches" }, patches);
  grid.style.gridTemplateColumns = `repeat(${across}, 1fr)`;
  const frame = h("div", { class: "frame" }, canvas, grid);
  shadePatches(payload, store, patches, first);
  return frame;
}

/** Pins a patch as the query, in a group where patches are queries. */
function pickPatch(payload: Payload, store: Store, query: number): void {
  const fits = payload.groups[store.state.group]?.queries === "source";
  const group = fits ? store.state.group : payload.groups.findIndex((one) => one.queries === "source");
  if (group < 0) return;
  const layers = payload.groups[group].layers;
  const layer = Math.min(store.state.layer, layers.length - 1);
  store.set({ group, layer, head: Math.min(store.state.head, layers[layer].heads - 1), query, key: -1, pinned: true });
}

/** Each patch as bright as the query's weight on it; dark where the group does not look at patches. */
function shadePatches(payload: Payload, store: Store, patches: HTMLElement[], first: number): void {
  const shade = () => {
    const { group, layer, head, weighting, query } = store.state;
    const { queries, keys } = payload.groups[group];
    const shown = matrix(payload, payload.groups[group], layer, head, weighting, false);
    const row = Math.max(0, query);
    const values = patches.map((_, place) => (keys === "source" ? shown.values[row * shown.columns.length + place + first] : 0));
    const largest = Math.max(...values, 1e-9);
    patches.forEach((patch, place) => {
      patch.style.setProperty("--share", String(values[place] / largest));
      patch.classList.toggle("chosen", queries === "source" && place + first === row);
    });
  };
  store.on(["group", "layer", "head", "weighting", "query"], shade);
  shade();
}
