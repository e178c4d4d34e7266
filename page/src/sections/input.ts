// Part 1: source and target, words or an image. Live, another input runs the model again.

import { h } from "../dom";
import type { Store } from "../store";
import { readsImages } from "../input";
import type { Submit } from "../server";
import type { Payload, Side } from "../types";
import { form } from "./form";
import { picture } from "./picture";

export function input(payload: Payload, store: Store, submit: Submit): HTMLElement {
  const images = readsImages(payload);
  const words = [
    sentence(payload, store, "source", payload.shape === "label" ? "Input" : "Source"),
    sentence(payload, store, "target", targetTitle(payload)),
    payload.generation.classes ? prediction(payload) : null,
    payload.live ? form(payload, submit) : fixed(images),
  ];
  return h("section", { id: "sentence", class: "bar", "aria-label": images ? "Image" : "Sentence" },
    images ? h("div", { class: "pictured" }, imageFigure(payload, store), h("div", {}, words)) : words);
}

function targetTitle(payload: Payload): string {
  if (payload.shape === "text") return payload.target !== null ? "Prompt and forced continuation" : "Prompt and generated continuation";
  return payload.target !== null ? "Forced target" : "Generated target";
}

function imageFigure(payload: Payload, store: Store): HTMLElement {
  if (!payload.image) return h("p", { class: "drop" }, "Drop an image here, or choose a file.");
  return h("figure", { class: "input-image" }, picture(payload, store, true), h("figcaption", {}, caption(payload)));
}

function caption(payload: Payload): string {
  const { size, patch } = payload.image!;
  const name = payload.file ? `${payload.file.name}, as` : "As";
  return `${name} the model reads it: ${size} × ${size} pixels in patches of ${patch} × ${patch}. Point at a patch to make it the query of the chosen head.`;
}

function sentence(payload: Payload, store: Store, side: Side, title: string): HTMLElement | null {
  const line = payload.sentences[side];
  if (!line || (payload.image && side === "source")) return null;
  const spaced = line.tokens.some((token) => token.includes("▁"));
  const special = (text: string) => /^<\w+>$/.test(text);
  const joins = (word: number) => spaced && !special(line.texts[word - 1]) && !/^[▁<↵]/.test(line.tokens[line.words.indexOf(word)]);
  const kind = (text: string, word: number) => {
    const prompted = side === "target" && line.words.indexOf(word) < payload.prompt_length;
    return prompted || special(text) ? "word prompt" : "word";
  };
  const words = line.texts.flatMap((text, word) => [
    word > 0 && !joins(word) ? " " : "",
    h("button", { type: "button", class: kind(text, word), dir: special(text) ? "ltr" : null, "data-side": side, "data-word": word, click: () => pinQuery(payload, store, side, word) }, text),
    text.endsWith("↵") && word < line.texts.length - 1 ? h("br") : "",
  ]);
  return h("div", { class: "sentence" }, h("span", { class: "side" }, title), h("p", { class: "words", dir: "auto" }, words));
}

/** Pins a word as the query, in a group where it is one. */
function pinQuery(payload: Payload, store: Store, side: Side, word: number): void {
  const line = payload.sentences[side];
  const fits = (index: number) => payload.groups[index]?.queries === side;
  const group = fits(store.state.group) ? store.state.group : payload.groups.findIndex((one) => one.queries === side);
  if (group < 0 || !line) return;
  const query = store.state.words ? word : line.words.indexOf(word);
  const layers = payload.groups[group].layers;
  const layer = Math.min(store.state.layer, layers.length - 1);
  store.set({ group, layer, head: Math.min(store.state.head, layers[layer].heads - 1), query, key: -1, pinned: true });
}

function prediction(payload: Payload): HTMLElement {
  const [label, p] = payload.generation.classes![0];
  return h("div", { class: "sentence" }, h("span", { class: "side" }, "Prediction"), h("p", { class: "words" }, h("strong", {}, label), ` with probability ${p.toFixed(3)}`));
}

function fixed(images: boolean): HTMLElement {
  return images
    ? h("p", { class: "hint" }, "This page is a file, so its image is fixed. Run ", h("code", {}, "regard serve RUN"), " to choose another, or ", h("code", {}, "regard look RUN another.png"), " for another page.")
    : h("p", { class: "hint" }, "This page is a file, so its text is fixed. Run ", h("code", {}, "regard serve RUN"), " to edit it, or ", h("code", {}, "regard look RUN “another text”"), " for another page.");
}
