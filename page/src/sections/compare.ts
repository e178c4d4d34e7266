// Part 10: two runs on one input, side by side.

import { onThemeChange } from "../colour";
import { h, onWidth, section, select } from "../dom";
import { MatrixView } from "../matrixview";
import { percent } from "../numbers";
import type { Payload } from "../types";
import { matrix } from "../weights";

export function compare(payload: Payload): HTMLElement {
  const other = payload.against;
  if (!other) {
    return section("compare", "Two runs", "One input, two models.", h("p", { class: "hint" }, "To compare, name a second run: ", h("code", {}, `regard look RUN ${payload.image ? "image.png" : "“text”"} --against RUN2`), "."));
  }
  return section("compare", "Two runs", `One input, two models: ${payload.about.run || "the first"} and ${other.about.run || "the second"}.`,
    h("div", { class: "two" }, side(payload, "left"), side(other, "right")), agreement(payload, other));
}

function side(payload: Payload, place: string): HTMLElement {
  const { about } = payload;
  const facts = [about.kind, about.attention && `${about.attention} attention`, about.position && `${about.position} positions`, `${(about.parameters / 1e6).toFixed(2)} M parameters`].filter(Boolean).join(" · ");
  const answer = payload.generation.classes ? `${payload.generation.classes[0][0]} (${percent(payload.generation.classes[0][1])})` : payload.output;
  return h("div", { class: "panel", "data-side": place }, h("h3", {}, about.run || about.kind), h("p", { class: "side" }, facts), h("p", { class: "heard" }, answer), payload.groups.length ? map(payload) : h("p", { class: "hint" }, "This model has no attention to show."));
}

function map(payload: Payload): HTMLElement {
  const heads = payload.groups.flatMap((group, g) => group.layers.flatMap((layer, l) => Array.from({ length: layer.heads }, (_, n) => ({ value: `${g}.${l}.${n}`, label: `${group.title} ${l + 1}.${n + 1}` }))));
  const readout = h("p", { class: "readout", role: "status" });
  const holder = h("div");
  let chosen = heads[heads.length - 1].value;
  let shown: ReturnType<typeof matrix>;
  const tell = (cell: { query: number; key: number } | null) => {
    view.mark(cell ?? { query: -1, key: -1 });
    readout.textContent = cell ? `“${shown.rows[cell.query]}” → “${shown.columns[cell.key]}”: ${shown.values[cell.query * shown.columns.length + cell.key].toFixed(3)}` : " ";
  };
  const view = new MatrixView("Matrix of one head of this run; arrow keys walk over the cells", { point: tell, pin: tell }, () => holder.clientWidth || 480);
  holder.append(view.element);
  const draw = () => {
    const [group, layer, head] = chosen.split(".").map(Number);
    shown = matrix(payload, payload.groups[group], layer, head, "raw", !payload.image);
    view.show(shown);
    tell(null);
  };
  onWidth(holder, draw);
  onThemeChange(draw);
  return h("div", {}, select("Head", heads, chosen, (value) => { chosen = value; draw(); }), holder, readout);
}

function agreement(one: Payload, other: Payload): HTMLElement | null {
  const left = one.generation.steps;
  const right = other.generation.steps;
  if (!left || !right) return null;
  const same = one.output === other.output;
  const total = (steps: typeof left) => steps.reduce((sum, step) => sum + (step.given ? 0 : (step.logprob ?? 0)), 0);
  const told = same ? "Both write the same." : "They write different texts.";
  return h("p", { class: "verdict" }, `${told} Log-probability of what each wrote: ${total(left).toFixed(3)} and ${total(right).toFixed(3)}.`);
}
