// Elements without a framework. Text always goes in as text, so that no token can ever become markup.

type Child = Node | string | number | null | undefined | false;
type Properties = Record<string, string | number | boolean | null | undefined | ((event: any) => void)>;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Properties = {},
  ...children: (Child | Child[])[]
): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), properties, children);
}

export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  properties: Properties = {},
  ...children: (Child | Child[])[]
): SVGElementTagNameMap[K] {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);
}

function fill<E extends HTMLElement | SVGElement>(element: E, properties: Properties, children: (Child | Child[])[]): E {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

export function replace(parent: Element, ...children: Child[]): void {
  parent.replaceChildren(...children.filter((child): child is Node | string => child instanceof Node || typeof child === "string"));
}

export interface Choice<T extends string> {
  value: T;
  label: string;
}

export function select<T extends string>(label: string, choices: Choice<T>[], chosen: T, change: (value: T) => void): HTMLLabelElement {
  const options = choices.map((choice) => h("option", { value: choice.value, selected: choice.value === chosen }, choice.label));
  const box = h("select", { change: (event: Event) => change((event.target as HTMLSelectElement).value as T) }, options);
  return h("label", { class: "field" }, h("span", {}, label), box);
}

export function slider(
  label: string,
  range: { min: number; max: number; step: number; value: number },
  show: (value: number) => string,
  change: (value: number) => void,
): { element: HTMLLabelElement; set: (value: number) => void } {
  const output = h("output", {}, show(range.value));
  const input = h("input", { type: "range", min: range.min, max: range.max, step: range.step, value: range.value });
  input.addEventListener("input", () => {
    output.textContent = show(Number(input.value));
    change(Number(input.value));
  });
  const set = (value: number) => {
    input.value = String(value);
    output.textContent = show(value);
  };
  return { element: h("label", { class: "field slider" }, h("span", {}, label), input, output), set };
}

export function button(label: string, press: () => void, properties: Properties = {}): HTMLButtonElement {
  return h("button", { type: "button", click: press, ...properties }, label);
}

export function section(id: string, title: string, about: string, ...children: (Child | Child[])[]): HTMLElement {
  return h(
    "section",
    { id, "aria-labelledby": `${id}-title` },
    h("header", {}, h("h2", { id: `${id}-title` }, title), h("p", { class: "about" }, about)),
    ...children,
  );
}

/** A row of tabs; arrow keys move between them. */
export function tabs(label: string, names: string[], chosen: number, change: (index: number) => void): { element: HTMLElement; set: (index: number) => void } {
  const set = (index: number) =>
    items.forEach((item, other) => {
      item.setAttribute("aria-selected", String(other === index));
      item.tabIndex = other === index ? 0 : -1;
    });
  const press = (index: number) => {
    set(index);
    change(index);
  };
  const items = names.map((name, index) =>
    h("button", { type: "button", role: "tab", "aria-selected": String(index === chosen), tabindex: index === chosen ? 0 : -1,
      click: () => press(index),
      keydown: (event: KeyboardEvent) => {
        const move = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
        if (!move) return;
        const next = (index + move + names.length) % names.length;
        press(next);
        items[next].focus();
      } }, name),
  );
  return { element: h("div", { role: "tablist", "aria-label": label, class: "tabs" }, items), set };
}

/** Calls at once and whenever an element becomes wider or narrower. */
export function onWidth(element: Element, listener: () => void): void {
  let known = -1;
  new ResizeObserver(() => {
    if (element.clientWidth === known) return;
    known = element.clientWidth;
    requestAnimationFrame(listener);
  }).observe(element);
}

/** Calls with a file that is dropped anywhere on the page, as long as an element is part of it. */
export function onFile(element: Element, listener: (file: File) => void): void {
  const listening = new AbortController();
  const take = (event: DragEvent) => {
    if (!element.isConnected) return listening.abort();
    event.preventDefault(); // or the browser would leave the page for the file
    document.documentElement.classList.toggle("dropping", event.type === "dragover");
    const file = event.type === "drop" ? event.dataTransfer?.files[0] : null;
    if (file) listener(file);
  };
  for (const type of ["dragover", "dragleave", "drop"] as const) document.addEventListener(type, take, { signal: listening.signal });
}
