// The page: reads its data, puts the ten parts together, and (live) asks its server for another input.

import "uplot/dist/uPlot.min.css";
import "./style.css";
import { h, replace } from "./dom";
import { bar } from "./sections/bar";
import { compare } from "./sections/compare";
import { coreference } from "./sections/coreference";
import { generation } from "./sections/generation";
import { head } from "./sections/head";
import { overview } from "./sections/overview";
import { paths } from "./sections/paths";
import { positions } from "./sections/positions";
import { steps } from "./sections/steps";
import { training } from "./sections/training";
import { count, unpacked } from "./numbers";
import { attention, type Ask } from "./server";
import { Store, type State } from "./store";
import { readsImages, type Payload } from "./types";

const NAMES: [id: string, name: string][] = [
  ["overview", "All heads"], ["head", "One head"], ["steps", "Four steps"], ["generation", "Generation"], ["positions", "Positions"],
  ["paths", "Paths"], ["coreference", "“it”"], ["training", "Training"], ["compare", "Two runs"],
];

/** Parts that only some models have. */
const SOMETIMES: Record<string, (payload: Payload) => boolean> = {
  overview: attends, head: attends, steps: attends, paths: readsWords, coreference: readsWords,
};
let asked = 0;

function mount(payload: Payload, app: HTMLElement, before?: { payload: Payload; state: State }): void {
  document.title = `regard: ${payload.about.run || payload.about.kind}`;
  const store = new Store(chosen(payload, before));
  const focused = document.activeElement?.id;
  const ask = asker(payload, store, app);
  const main = h("main", {}, bar(payload, store, ask));
  const shown = payload.blank === undefined ? NAMES.filter(([id]) => SOMETIMES[id]?.(payload) ?? true) : [];
  const nav = h("nav", { "aria-label": "Parts of this page" }, shown.map(([id, name]) => h("a", { href: `#${id}` }, name)));
  if (payload.blank === undefined) main.append(...firstParts(payload, store, ask));
  replace(app, top(payload), shown.length ? nav : null, main, note());
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  // What is not on the first screen comes right after it is painted.
  requestAnimationFrame(() => setTimeout(() => {
    main.append(...laterParts(payload, store));
    document.documentElement.dataset.ready = "true";
  }));
}

/** What is chosen at first: what was chosen before, except for what another input or another model does not have. */
function chosen(payload: Payload, before?: { payload: Payload; state: State }): State {
  const first = { group: Math.max(0, payload.groups.findIndex((group) => group.name === "encoder")), layer: 0, head: 0 };
  const nothing = { query: -1, key: -1, pinned: false };
  if (!before) return { ...first, ...nothing, words: !payload.image, weighting: "raw", order: "place", temperature: 1, nucleus: 1 };
  return { ...before.state, ...(alike(before.payload, payload) ? {} : first), ...nothing, words: before.state.words && !payload.image };
}

/** Asks the server for another input and shows what it answers, unless something newer has been asked for since. */
function asker(payload: Payload, store: Store, app: HTMLElement): Ask {
  return async (request) => {
    const own = ++asked;
    app.setAttribute("aria-busy", "true");
    const found = await attention(request);
    if (own !== asked) return null;
    app.removeAttribute("aria-busy");
    if (typeof found === "string") return found;
    const { models, image_models, image_bytes } = payload;
    const training = found.training ?? (found.about.run === payload.about.run ? payload.training : undefined);
    mount({ ...found, live: true, models, image_models, image_bytes, file: request.file, training }, app, { payload, state: store.state });
    return null;
  };
}

function firstParts(payload: Payload, store: Store, ask: Ask): HTMLElement[] {
  return attends(payload)
    ? [overview(payload, store), head(payload, store, ask), steps(payload, store)]
    : [h("p", { class: "hint" }, "This model has no attention; generation, training and path lengths are below.")];
}

function laterParts(payload: Payload, store: Store): HTMLElement[] {
  if (payload.blank !== undefined) return [training(payload, store)];
  const ofWords = readsWords(payload) ? [paths(payload), coreference(payload)] : [];
  return [generation(payload, store), positions(payload), ...ofWords, training(payload, store), compare(payload)];
}

function attends(payload: Payload): boolean {
  return payload.groups.length > 0;
}

function readsWords(payload: Payload): boolean {
  return !readsImages(payload);
}

/** Whether two inputs were seen by models of one shape, so that the chosen head is still there. */
function alike(one: Payload, other: Payload): boolean {
  const shape = (payload: Payload) => JSON.stringify(payload.groups.map((group) => group.layers.map((layer) => layer.heads)));
  return shape(one) === shape(other);
}

function top(payload: Payload): HTMLElement {
  const { about } = payload;
  const facts = [about.step === null ? "" : `step ${about.step.toLocaleString("en")}`, about.kind, about.depth && about.heads ? `${about.depth} layers × ${about.heads} heads` : "", `${count(about.parameters)} parameters`].filter(Boolean).join(" · ");
  return h("header", { class: "top" }, h("h1", {}, "regard", h("span", { class: "run" }, about.run || about.task)), h("p", { class: "facts" }, facts));
}

function note(): HTMLElement {
  return h("footer", { class: "note" }, h("p", {}, h("strong", {}, "Attention is not explanation. "), "Weights show what a head mixed, not why the model decided. ", h("span", { class: "further" }, "Other weights can give the same answer; switch heads off and see what moves.")));
}

const data = document.getElementById("regard-data");
const app = document.getElementById("app");
if (data && app) {
  unpacked(data.textContent ?? "").then((text) => {
    mount(JSON.parse(text) as Payload, app);
  });
}
