// Part 6: what this model knows of places, and what becomes of the words in another order.

import { onThemeChange } from "../colour";
import { button, h, replace, section } from "../dom";
import { chart } from "../chart";
import { signedMap } from "../heatmap";
import { signed } from "../numbers";
import type { Payload, Positions, Shuffle } from "../types";

export function positions(payload: Payload): HTMLElement {
  const body = h("div", { class: "figures" });
  const draw = () => replace(body, ...figures(payload.positions));
  onThemeChange(draw);
  draw();
  return section("positions", `Positions: ${payload.positions.kind}`, payload.positions.about, body, payload.image ? null : shuffler(payload));
}

function figures(positions: Positions): HTMLElement[] {
  const found: HTMLElement[] = [];
  const { places, numbers } = positions;
  if (positions.vectors && places && numbers) {
    found.push(figure(signedMap(signed(positions.vectors), places, numbers, "Vectors by place"), `Vectors of ${places} places (down), ${numbers} numbers each (across): blue is positive, orange negative`));
  }
  if (positions.similarity && places) {
    const map = signedMap(signed(positions.similarity), places, places, "Similarity of places");
    map.classList.add("even");
    found.push(figure(map, `How alike two of ${places} places are: the cosine of their vectors; blue is positive, orange negative`));
  }
  if (positions.by_offset) found.push(figure(offsets(positions.by_offset, positions.speeds ? "product after turning" : "dot product"), positions.speeds ? "What turning leaves of the product of a vector with itself, by distance" : "Dot product of two places, by their distance"));
  if (positions.speeds) {
    const speeds = positions.speeds;
    found.push(figure(chart([{ x: speeds.map((_, pair) => pair + 1), y: speeds.map((speed) => Math.log10((2 * Math.PI) / speed)) }], { x: "pair of numbers", y: "log₁₀ tokens a turn", about: "Tokens for one whole turn of each pair" }), "How many tokens one whole turn takes, pair by pair"));
  }
  for (const stack of positions.bias ?? []) {
    const curves = stack.heads.map((head, number) => ({ x: head.map((_, place) => place - (head.length - 1) / 2), y: head, name: `head ${number + 1}` }));
    found.push(figure(chart(curves, { x: "key − query, in tokens", y: "added to the score", about: `Bias by distance in ${stack.module}` }), `What positions add to the scores in ${stack.module}, a line a head; head 1 is the strongest in colour`));
  }
  return found;
}

function offsets(values: number[], label: string): SVGSVGElement {
  const middle = (values.length - 1) / 2;
  return chart([{ x: values.map((_, place) => place - middle), y: values }], { x: "distance in tokens", y: label, about: `${label} by distance` });
}

function figure(picture: Element, caption: string): HTMLElement {
  return h("figure", {}, picture, h("figcaption", {}, caption));
}

function shuffler(payload: Payload): HTMLElement {
  const result = h("div", { class: "shuffled", role: "status" });
  let next = 0;
  const press = () => {
    replace(result, ...shown(payload, payload.shuffles[next % payload.shuffles.length]));
    next++;
  };
  if (!payload.shuffles.length) return h("p", { class: "hint" }, "There is nothing to shuffle here.");
  return h("div", {}, h("div", { class: "controls" }, button("Shuffle the words", press, { class: "primary", id: "shuffle" })), result);
}

function shown(payload: Payload, shuffle: Shuffle): HTMLElement[] {
  const tokens = shuffle.tokens.map((token, place) => {
    const piece = h("span", { class: "moved" }, /^<\w+>$/.test(token) ? ` ${token}` : token.replace("▁", " "));
    const similar = shuffle.similarity[place] ?? 1;
    piece.style.setProperty("--share", String(Math.max(0, 1 - similar)));
    piece.title = `cosine with its vector before: ${similar.toFixed(3)}`;
    return piece;
  });
  const least = Math.min(...shuffle.similarity);
  const blind = least > 0.9999;
  const before = payload.generation.classes ? `${payload.generation.classes[0][0]}` : payload.output;
  return [
    h("p", { class: "words", dir: "auto" }, tokens),
    h("p", {}, !shuffle.similarity.length ? "" : blind ? "No vector has moved: this model does not know in which order the words stand." : `Shading shows how far each token's last vector moved; the farthest has cosine ${least.toFixed(2)} with what it was.`),
    shuffle.output ? h("p", {}, h("span", { class: "side" }, "before "), h("bdi", {}, before), h("br"), h("span", { class: "side" }, "now "), h("strong", {}, h("bdi", {}, shuffle.output))) : h("p"),
  ];
}
