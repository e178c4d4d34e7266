// One head during training: its weights on this input at each checkpoint.

import { onThemeChange } from "../colour";
import { h, replace, slider } from "../dom";
import { cells } from "../heatmap";
import { sameInput, attention } from "../server";
import type { Store } from "../store";
import { headName } from "../input";
import type { Payload } from "../types";
import { snapshotWeights } from "../weights";

const HINT = "With several checkpoints kept (train.keep), a slider here shows a head during training.";

/** Live, earlier checkpoints are requested when this comes into view: loading them takes a while. */
export function checkpoints(payload: Payload, store: Store): HTMLElement {
  const holder = h("div");
  const show = (result: Payload) => replace(holder, result.snapshots.length < 2 ? hint(HINT) : frames(result, store));
  if (!payload.groups.length || !payload.live || payload.snapshots.length) show(payload);
  else {
    replace(holder, hint("Earlier checkpoints are loaded as soon as this is in view."));
    onceSeen(holder, async () => {
      replace(holder, hint("Loading earlier checkpoints …"));
      const result = await earlier(payload);
      if (typeof result === "string") replace(holder, hint(result));
      else show(result);
    });
  }
  return holder;
}

function hint(text: string): HTMLElement {
  return h("p", { class: "hint", role: "status" }, text);
}

/** The same input once more, with the checkpoints and without what the page has already. */
function earlier(payload: Payload): Promise<Payload | string> {
  const options = { ...payload.options, coreference: false, paths: false, shuffles: 0 };
  return attention({ model: payload.about.run, ...sameInput(payload), target: payload.target, options, snapshots: true });
}

function onceSeen(element: Element, listener: () => void): void {
  const watching = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    watching.disconnect();
    listener();
  });
  watching.observe(element);
}

function frames(payload: Payload, store: Store): HTMLElement {
  const shots = payload.snapshots;
  let at = shots.length - 1;
  const frame = h("div", { class: "forming" });
  const caption = h("p", { class: "side" });
  const draw = () => {
    const { group, layer, head } = store.state;
    const selected = payload.groups[group];
    const values = snapshotWeights(shots[at], selected, layer, head);
    const size = selected.layers[layer];
    caption.textContent = `${headName(selected, layer, head)}, after step ${shots[at].step}: rows are queries, columns are keys`;
    if (!values) return replace(frame, h("p", {}, "This checkpoint has no such head."));
    const picture = cells(values, size.queries, size.keys);
    picture.className = "map square";
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", caption.textContent);
    replace(frame, picture);
  };
  store.on(["group", "layer", "head"], draw);
  onThemeChange(draw);
  const slide = slider("Checkpoint", { min: 0, max: shots.length - 1, step: 1, value: at }, (value) => `step ${shots[value].step}`, (value) => { at = value; draw(); });
  slide.element.classList.add("long");
  draw();
  return h("div", {}, h("h3", {}, "One head during training"), h("div", { class: "controls" }, slide.element), caption, frame);
}
