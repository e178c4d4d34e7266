// How the live page asks again: with another text, another image, or another run.

import { button, h, onFile } from "../dom";
import { base64 } from "../numbers";
import type { Ask, Request } from "../server";
import { readsImages, type Payload } from "../types";

export function asking(payload: Payload, ask: Ask): HTMLElement {
  return readsImages(payload) ? imageForm(payload, ask) : textForm(payload, ask);
}

function textForm(payload: Payload, ask: Ask): HTMLElement {
  const text = h("textarea", { rows: Math.min(8, 2 + Math.floor(payload.text.length / 120)), spellcheck: "false", dir: "auto", id: "edit-text" }, payload.text);
  const { fields, send } = common(payload, ask);
  return h("form", { class: "edit", submit: (event: Event) => { event.preventDefault(); void send({ text: text.value }); } },
    h("label", { class: "field wide" }, h("span", {}, payload.shape === "text" ? "Prompt" : "Text"), text), fields);
}

function imageForm(payload: Payload, ask: Ask): HTMLElement {
  const { fields, send, tell } = common(payload, ask);
  const choose = async (file: File) => {
    const refused = tooLarge(payload, file);
    if (refused) return tell(refused);
    const data = await base64(file);
    if (data === null) return tell(`${file.name} cannot be read.`);
    await send({ file: { name: file.name, data } });
  };
  const input = h("input", { type: "file", id: "edit-image", accept: "image/*", change: () => { if (input.files?.[0]) void choose(input.files[0]); } });
  const submit = (event: Event) => {
    event.preventDefault();
    if (payload.file) void send({ file: payload.file });
    else tell("Choose an image first.");
  };
  const form = h("form", { class: "edit images", submit }, h("label", { class: "field wide" }, h("span", {}, `${payload.image ? "Another image" : "Image"}: choose a file, or drop it anywhere`), input), fields);
  onFile(form, (file) => void choose(file));
  return form;
}

function tooLarge(payload: Payload, file: File): string | null {
  const most = payload.image_bytes ?? Infinity;
  const kilobytes = (bytes: number) => `${Math.round(bytes / 1000).toLocaleString("en")} kB`;
  return file.size > most ? `${file.name} has ${kilobytes(file.size)}; this server takes images of at most ${kilobytes(most)}.` : null;
}

/** What both forms have: the forced target, the run, the button, and what became of it. */
function common(payload: Payload, ask: Ask) {
  const target = h("input", { type: "text", dir: "auto", id: "edit-target", value: payload.target ?? "", placeholder: "its own words" });
  const names = payload.models?.length ? payload.models : [payload.about.run];
  const elsewhere = () => readsImages(payload, model.value) !== readsImages(payload);
  const tell = (sentence: string, refused = true) => {
    status.textContent = sentence;
    status.classList.toggle("failed", refused);
  };
  const change = () => tell(elsewhere() ? `${model.value} reads ${readsImages(payload, model.value) ? "images" : "texts"}; Look opens its page.` : "", false);
  const model: HTMLSelectElement = h("select", { id: "edit-model", change }, names.map((name) => h("option", { value: name, selected: name === payload.about.run }, name)));
  const status = h("p", { class: "status", role: "status" }, payload.blank ?? "");
  const send = async (input: Pick<Request, "text" | "file">) => {
    if (elsewhere()) return location.assign(`/?model=${encodeURIComponent(model.value)}`);
    tell("Looking …", false);
    const forced = payload.shape === "label" || !target.value.trim() ? null : target.value;
    const off = model.value === payload.about.run ? payload.options.off : undefined; // heads stay off until they are switched on
    const refused = await ask({ model: model.value, ...input, target: forced, ...(Array.isArray(off) && off.length ? { options: { off } } : {}) });
    tell(refused && input.file ? refused.replace(/^image: /, `${input.file.name}: `) : (refused ?? ""));
  };
  const fields = [
    payload.shape === "label" ? null : h("label", { class: "field wide" }, h("span", {}, "Forced target"), target),
    h("label", { class: "field" }, h("span", {}, "Model"), model),
    button("Look", () => {}, { type: "submit", class: "primary", id: "edit-look" }),
    status,
  ];
  return { fields, send, tell };
}
