// The page: reads its data, puts the ten parts together, and (live) asks its server for another input.

import "uplot/dist/uPlot.min.css";
import "./style.css";
import { h, replace } from "./dom";
import { bar, type Ask } from "./sections/bar";
import { compare } from "./sections/compare";
import { coreference } from "./sections/coreference";
import { generation } from "./sections/generation";
import { head } from "./sections/head";
import { overview } from "./sections/overview";
import { paths } from "./sections/paths";
import { positions } from "./sections/positions";
import { steps } from "./sections/steps";
import { training } from "./sections/training";
import { unpacked } from "./numbers";
import { Store, type State } from "./store";
import type { Payload } from "./types";

const NAMES: [id: string, name: string][] = [
  ["overview", "All heads"], ["head", "One head"], ["steps", "Four steps"], ["generation", "Generation"], ["positions", "Positions"],
  ["paths", "Paths"], ["coreference", "“it”"], ["training", "Training"], ["compare", "Two runs"],
];

function mount(payload: Payload, app: HTMLElement, before?: { payload: Payload; state: State }): void {
  const last = Math.max(0, payload.groups.findIndex((group) => group.name === "encoder"));
  const fresh: State = { group: last, layer: 0, head: 0, query: -1, key: -1, pinned: false, words: !payload.image, weighting: "raw" };
  const store = new Store(before && alike(before.payload, payload) ? { ...before.state, query: -1, key: -1, pinned: false } : fresh);
  const ask: Ask = async (request) => {
    const answer = await fetch("/attention", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ options: {}, ...request }) }).catch(() => null);
    if (!answer) return "The server does not answer.";
    const found = await answer.json().catch(() => ({}));
    if (!answer.ok) return refusal(found, answer.status);
    mount({ ...found, live: true, models: payload.models, training: found.training ?? payload.training }, app, { payload, state: store.state });
    return null;
  };
  const attends = payload.groups.length > 0;
  const nav = h("nav", { "aria-label": "Parts of this page" }, NAMES.filter(([id]) => attends || !["overview", "head", "steps"].includes(id)).map(([id, name]) => h("a", { href: `#${id}` }, name)));
  const first = attends
    ? [overview(payload, store), head(payload, store, ask), steps(payload, store)]
    : [h("p", { class: "hint" }, "This model has no attention; generation, training and path lengths are below.")];
  const main = h("main", {}, bar(payload, store, ask), ...first);
  replace(app, top(payload), nav, main, note());
  // What is not on the first screen comes right after it is painted.
  requestAnimationFrame(() => setTimeout(() => {
    main.append(generation(payload), positions(payload), paths(payload), coreference(payload), training(payload, store), compare(payload));
    document.documentElement.dataset.ready = "true";
  }));
}

/** Whether two inputs were seen by models of one shape, so that the chosen head is still there. */
function alike(one: Payload, other: Payload): boolean {
  const shape = (payload: Payload) => JSON.stringify(payload.groups.map((group) => group.layers.map((layer) => layer.heads)));
  return shape(one) === shape(other);
}

/** What a server says when it refuses, wherever it puts the sentence. */
function refusal(found: unknown, status: number): string {
  const { detail, error } = found as { detail?: unknown; error?: { message?: unknown } | string };
  const told = [detail, typeof error === "object" ? error?.message : error].find((text) => typeof text === "string");
  return (told as string | undefined) ?? `The server refuses (${status}).`;
}

function top(payload: Payload): HTMLElement {
  const { about } = payload;
  const facts = [about.step === null ? "" : `step ${about.step.toLocaleString("en")}`, about.kind, about.depth && about.heads ? `${about.depth} layers × ${about.heads} heads` : "", `${(about.parameters / 1e6).toFixed(2)} M parameters`].filter(Boolean).join(" · ");
  return h("header", { class: "top" }, h("h1", {}, "regard", h("span", { class: "run" }, about.run || about.task)), h("p", { class: "facts" }, facts));
}

function note(): HTMLElement {
  return h("footer", { class: "note" }, h("p", {}, h("strong", {}, "Attention is not explanation. "), "Weights show what a head mixed, not why the model decided. Other weights can give the same answer; switch heads off and see what moves."));
}

const data = document.getElementById("regard-data");
const app = document.getElementById("app");
if (data && app) {
  unpacked(data.textContent ?? "").then((text) => {
    const payload = JSON.parse(text) as Payload;
    document.title = `regard: ${payload.about.run || payload.about.kind}`;
    mount(payload, app);
  });
}
