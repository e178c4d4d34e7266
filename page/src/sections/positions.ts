// Part 6: the position encoding, and the same words in another order.

import { onThemeChange } from "../colour";
import { button, h, replace, section } from "../dom";
import { chart } from "../chart";
import { signedMap } from "../heatmap";
import { signed } from "../numbers";
import type { Payload, Positions, Shuffle } from "../types";

export function positions(payload: Payload): HTMLElement {
  const body = h("div", { class: "figures" });
  const draw = () => replace(body, ...figures(payload.positions!));
  onThemeChange(draw);
  draw();
  return section("positions", `Positions: ${payload.positions!.kind}`, payload.positions!.about, body, payload.image ? null : shuffler(payload));
}

function figures(positions: Positions): HTMLElement[] {
  const result: HTMLElement[] = [];
  const { count, dims } = positions;
  if (positions.vectors && count && dims) {
    result.push(figure(signedMap(signed(positions.vectors), count, dims, "Position vectors"), `Position vectors: ${count} positions (down), ${dims} dimensions (across); blue is positive, orange negative`));
  }
  if (positions.similarity && count) {
    const map = signedMap(signed(positions.similarity), count, count, "Similarity of positions");
    map.classList.add("even");
    result.push(figure(map, `Cosine similarity of ${count} position vectors; blue is positive, orange negative`));
  }
  if (positions.by_offset) result.push(figure(offsets(positions.by_offset, positions.frequencies ? "dot product after rotation" : "dot product"), positions.frequencies ? "Dot product of a vector with itself after rotation, by distance" : "Dot product of two position vectors, by distance"));
  if (positions.frequencies) {
    const frequencies = positions.frequencies;
    result.push(figure(chart([{ x: frequencies.map((_, pair) => pair + 1), y: frequencies.map((frequency) => Math.log10((2 * Math.PI) / frequency)) }], { x: "pair of dimensions", y: "log₁₀ wavelength in tokens", about: "Wavelength of each pair of dimensions" }), "Wavelength of each pair of dimensions, in tokens"));
  }
  for (const stack of positions.bias ?? []) {
    const curves = stack.heads.map((head, number) => ({ x: head.map((_, index) => index - (head.length - 1) / 2), y: head, name: `head ${number + 1}` }));
    result.push(figure(chart(curves, { x: "key − query, in tokens", y: "added to the score", about: `Bias by distance in ${stack.module}` }), `What positions add to the scores in ${stack.module}, a line a head; head 1 is the strongest in colour`));
  }
  return result;
}

function offsets(values: number[], label: string): SVGSVGElement {
  const middle = (values.length - 1) / 2;
  return chart([{ x: values.map((_, index) => index - middle), y: values }], { x: "distance in tokens", y: label, about: `${label} by distance` });
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
  const tokens = shuffle.tokens.map((token, index) => {
    const piece = h("span", { class: "moved" }, /^<\w+>$/.test(token) ? ` ${token}` : token.replace("▁", " "));
    const similar = shuffle.similarity[index] ?? 1;
    piece.style.setProperty("--share", String(Math.max(0, 1 - similar)));
    piece.title = `cosine similarity with the original: ${similar.toFixed(3)}`;
    return piece;
  });
  const least = Math.min(...shuffle.similarity);
  const invariant = least > 0.9999;
  const before = payload.generation.classes ? `${payload.generation.classes[0][0]}` : payload.output;
  return [
    h("p", { class: "words", dir: "auto" }, tokens),
    h("p", {}, !shuffle.similarity.length ? "" : invariant ? "No hidden vector has changed: this model does not depend on the order of the words." : `Shading shows how far each token’s last hidden vector moved; the smallest cosine similarity with the original is ${least.toFixed(2)}.`),
    shuffle.output ? h("p", {}, h("span", { class: "side" }, "before "), h("bdi", {}, before), h("br"), h("span", { class: "side" }, "now "), h("strong", {}, h("bdi", {}, shuffle.output))) : h("p"),
  ];
}
