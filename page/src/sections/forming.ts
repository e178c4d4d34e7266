// One head forming: what it did with this input at each checkpoint that was kept.

import { onThemeChange } from "../colour";
import { h, replace, slider } from "../dom";
import { cells } from "../heatmap";
import { again, attention } from "../server";
import type { Store } from "../store";
import type { Payload } from "../types";
import { snapshotWeights } from "../weights";

const HINT = "With several checkpoints kept (train.keep), a slider here shows a head forming.";

/** Live, earlier checkpoints are asked for when this comes into view: reading them takes a while. */
export function forming(payload: Payload, store: Store): HTMLElement {
  const holder = h("div");
  const show = (found: Payload) => replace(holder, found.snapshots.length < 2 ? hint(HINT) : frames(found, store));
  if (!payload.groups.length || !payload.live || payload.snapshots.length) show(payload);
  else {
    replace(holder, hint("Earlier checkpoints are read as soon as this is in view."));
    onceSeen(holder, async () => {
      replace(holder, hint("Reading earlier checkpoints …"));
      const found = await earlier(payload);
      if (typeof found === "string") replace(holder, hint(found));
      else show(found);
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
  return attention({ model: payload.about.run, ...again(payload), target: payload.target, options, snapshots: true });
}

function onceSeen(element: Element, tell: () => void): void {
  const watching = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    watching.disconnect();
    tell();
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
    const own = payload.groups[group];
    const values = snapshotWeights(shots[at], own, layer, head);
    const size = own.layers[layer];
    caption.textContent = `${own.title}, layer ${layer + 1}, head ${head + 1}, after step ${shots[at].step}: a row for each token that asks, a column for each that is asked`;
    if (!values) return replace(frame, h("p", {}, "This head was not recorded then."));
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
  return h("div", {}, h("h3", {}, "One head forming"), h("div", { class: "controls" }, slide.element), caption, frame);
}
