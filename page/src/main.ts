// The page: decodes its payload, mounts the sections, and (live) requests other inputs from its server.

import "uplot/dist/uPlot.min.css";
import "./style.css";
import { h, replace } from "./dom";
import { readsImages } from "./input";
import { count, unpacked } from "./numbers";
import { compare } from "./sections/compare";
import { coreference } from "./sections/coreference";
import { generation } from "./sections/generation";
import { head } from "./sections/head";
import { input } from "./sections/input";
import { overview } from "./sections/overview";
import { paths } from "./sections/paths";
import { positions } from "./sections/positions";
import { steps } from "./sections/steps";
import { training } from "./sections/training";
import { attention, type Submit } from "./server";
import { Store, type State } from "./store";
import type { Payload } from "./types";

interface Section {
  id: string;
  name: string;
  draw: (payload: Payload, store: Store, submit: Submit) => HTMLElement;
  /** Whether a payload has this section; all have it when left out. */
  shown?: (payload: Payload) => boolean;
  /** Drawn at once; the others right after the first paint. */
  first?: boolean;
}

const attends = (payload: Payload) => payload.groups.length > 0;
const hasInput = (payload: Payload) => payload.blank === undefined;
const readsWords = (payload: Payload) => hasInput(payload) && !readsImages(payload);

/** All sections in their order: a new section is one line here and a file in sections/. */
const SECTIONS: Section[] = [
  { id: "overview", name: "All heads", draw: overview, shown: attends, first: true },
  { id: "head", name: "One head", draw: head, shown: attends, first: true },
  { id: "steps", name: "Four steps", draw: steps, shown: attends, first: true },
  { id: "generation", name: "Generation", draw: generation, shown: hasInput },
  { id: "positions", name: "Positions", draw: positions, shown: hasInput },
  { id: "paths", name: "Paths", draw: paths, shown: readsWords },
  { id: "coreference", name: "“it”", draw: coreference, shown: readsWords },
  { id: "training", name: "Training", draw: training },
  { id: "compare", name: "Two runs", draw: compare, shown: hasInput },
];
let latest = 0;

function mount(payload: Payload, app: HTMLElement, before?: { payload: Payload; state: State }): void {
  document.title = `regard: ${payload.about.run || payload.about.kind}`;
  const store = new Store(chosen(payload, before));
  const focused = document.activeElement?.id;
  const submit = submitter(payload, store, app);
  const sections = SECTIONS.filter((section) => section.shown?.(payload) ?? true);
  const drawn = (first: boolean) => sections.filter((section) => (section.first ?? false) === first).map((section) => section.draw(payload, store, submit));
  const nav = h("nav", { "aria-label": "Parts of this page" }, sections.map(({ id, name }) => h("a", { href: `#${id}` }, name)));
  const main = h("main", {}, input(payload, store, submit), drawn(true));
  if (hasInput(payload) && !attends(payload)) main.append(h("p", { class: "hint" }, "This model has no attention; generation, training and path lengths are below."));
  replace(app, top(payload), hasInput(payload) ? nav : null, main, note());
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  // What is not on the first screen is drawn after the first paint.
  requestAnimationFrame(() => setTimeout(() => {
    main.append(...drawn(false));
    document.documentElement.dataset.ready = "true";
  }));
}

/** The initial state: that of the page before, except for what another input or model does not have. */
function chosen(payload: Payload, before?: { payload: Payload; state: State }): State {
  const first = { group: Math.max(0, payload.groups.findIndex((group) => group.name === "encoder")), layer: 0, head: 0 };
  const nothing = { query: -1, key: -1, pinned: false };
  if (!before) return { ...first, ...nothing, words: !payload.image, weighting: "raw", order: "layer", temperature: 1, nucleus: 1 };
  return { ...before.state, ...(alike(before.payload, payload) ? {} : first), ...nothing, words: before.state.words && !payload.image };
}

/** Requests another input and mounts the response, unless there is a newer request by then. */
function submitter(payload: Payload, store: Store, app: HTMLElement): Submit {
  return async (request) => {
    const number = ++latest;
    app.setAttribute("aria-busy", "true");
    const result = await attention(request);
    if (number !== latest) return null;
    app.removeAttribute("aria-busy");
    if (typeof result === "string") return result;
    const { models, image_models, image_bytes } = payload;
    const training = result.training ?? (result.about.run === payload.about.run ? payload.training : undefined);
    mount({ ...result, live: true, models, image_models, image_bytes, file: request.file, training }, app, { payload, state: store.state });
    return null;
  };
}

/** Whether two payloads have the same layers and heads, so that the chosen head is still there. */
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
  return h("footer", { class: "note" }, h("p", {}, h("strong", {}, "Attention is not explanation. "), "Weights show what a head attends to, not why the model predicts what it does. ", h("span", { class: "further" }, "Other weights can give the same output; switch heads off and compare.")));
}

const data = document.getElementById("regard-data");
const app = document.getElementById("app");
if (data && app) {
  unpacked(data.textContent ?? "").then((text) => {
    mount(JSON.parse(text) as Payload, app);
  });
}
