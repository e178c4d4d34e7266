// A matrix with its labels: point, pin with a click, or move with the arrow keys.

import { colours } from "./colour";
import { h } from "./dom";
import { cells, sized } from "./heatmap";
import type { Matrix } from "./weights";

const FONT = 13;
const LARGEST = 30;
const READABLE = 13;
/** The widest a label may be. */
const LABEL = 130;
/** Room for the names of the two sides. */
const AXIS = 18;
/** Room for what the last column's slanted label takes beyond it. */
const SLANTED = 34;

export interface Cell {
  query: number;
  key: number;
}

export interface Handlers {
  point(cell: Cell | null): void;
  pin(cell: Cell | null): void;
  /** A click; unpins what is pinned already. */
  press(cell: Cell | null): void;
}

export class MatrixView {
  readonly element: HTMLElement;
  private readonly base = h("canvas", { "aria-hidden": "true" });
  private readonly over: HTMLCanvasElement;
  private matrix!: Matrix;
  private cell = 10;
  private left = 0;
  private right = 0;
  private top = 0;

  constructor(label: string, private readonly handlers: Handlers, private readonly room: () => number) {
    this.over = h("canvas", { class: "over", tabindex: 0, role: "img", "aria-label": label });
    const stack = h("div", { class: "stack" }, this.base, this.over);
    this.element = h("div", { class: "scroll" }, stack);
    this.over.addEventListener("pointermove", (event) => handlers.point(this.at(event)));
    this.over.addEventListener("pointerleave", () => handlers.point(null));
    this.over.addEventListener("click", (event) => handlers.press(this.at(event)));
    this.over.addEventListener("keydown", (event) => this.walk(event));
  }

  private focused: Cell = { query: 0, key: 0 };

  show(matrix: Matrix): void {
    this.matrix = matrix;
    const high = matrix.rows.length;
    const wide = matrix.columns.length;
    const measure = document.createElement("canvas").getContext("2d")!;
    measure.font = font();
    const longest = (texts: string[]) => Math.min(LABEL, texts.reduce((most, text) => Math.max(most, measure.measureText(text).width), 0) + 10);
    this.left = Math.max(longest(matrix.rows), AXIS + 34);
    this.top = longest(matrix.columns) * 0.8 + 14 + AXIS;
    this.right = SLANTED;
    const fit = Math.floor((this.room() - this.left - this.right) / wide);
    this.cell = Math.max(Math.max(high, wide) <= 64 ? READABLE : 2, Math.min(LARGEST, fit));
    this.draw();
  }

  private draw(): void {
    const { rows, columns, values } = this.matrix;
    const width = this.left + columns.length * this.cell + this.right;
    const height = this.top + rows.length * this.cell + 8;
    const context = sized(this.base, width, height);
    sized(this.over, width, height);
    context.imageSmoothingEnabled = false;
    context.drawImage(cells(values, rows.length, columns.length), this.left, this.top, columns.length * this.cell, rows.length * this.cell);
    const palette = colours();
    context.strokeStyle = palette.faint;
    context.strokeRect(this.left - 0.5, this.top - 0.5, columns.length * this.cell + 1, rows.length * this.cell + 1);
    context.font = font();
    context.fillStyle = palette.ink;
    context.textBaseline = "middle";
    this.label(context);
    context.fillStyle = palette.quiet;
    context.textAlign = "left";
    context.fillText("↓ query   → key", 0, AXIS / 2);
  }

  /** Every token's text, or of so many as there is room for. */
  private label(context: CanvasRenderingContext2D): void {
    const { rows, columns } = this.matrix;
    const every = Math.ceil(READABLE / this.cell);
    context.textAlign = "right";
    rows.forEach((text, row) => {
      if (row % every === 0) context.fillText(fitted(context, text, LABEL - 10), this.left - 6, this.top + (row + 0.5) * this.cell);
    });
    context.textAlign = "left";
    columns.forEach((text, column) => {
      if (column % every) return;
      context.save();
      context.translate(this.left + (column + 0.5) * this.cell, this.top - 6);
      context.rotate(-Math.PI / 3.4);
      context.fillText(fitted(context, text, LABEL - 10), 0, 0);
      context.restore();
    });
  }

  /** The chosen cell, drawn above the picture. */
  mark(cell: Cell): void {
    const context = this.over.getContext("2d")!;
    context.clearRect(0, 0, this.over.width, this.over.height);
    const { rows, columns } = this.matrix;
    if (cell.query < 0 && cell.key < 0) return;
    this.focused = { query: Math.max(0, cell.query), key: Math.max(0, cell.key) };
    const palette = colours();
    context.strokeStyle = palette.ink;
    context.lineWidth = 1;
    const x = this.left + cell.key * this.cell;
    const y = this.top + cell.query * this.cell;
    if (cell.query >= 0) context.strokeRect(this.left - 0.5, y - 0.5, columns.length * this.cell + 1, this.cell + 1);
    if (cell.key >= 0) context.strokeRect(x - 0.5, this.top - 0.5, this.cell + 1, rows.length * this.cell + 1);
    if (cell.query >= 0 && cell.key >= 0) {
      context.lineWidth = 2.5;
      context.strokeRect(x - 1, y - 1, this.cell + 2, this.cell + 2);
    }
  }

  private at(event: MouseEvent): Cell | null {
    const box = this.over.getBoundingClientRect();
    const key = Math.floor((event.clientX - box.left - this.left) / this.cell);
    const query = Math.floor((event.clientY - box.top - this.top) / this.cell);
    const inside = key >= 0 && query >= 0 && key < this.matrix.columns.length && query < this.matrix.rows.length;
    return inside ? { query, key } : null;
  }

  private walk(event: KeyboardEvent): void {
    const moves: Record<string, [number, number]> = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const move = moves[event.key];
    if (event.key === "Escape") {
      this.focused = { query: 0, key: 0 };
      return this.handlers.pin(null);
    }
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      return this.handlers.pin(this.focused);
    }
    if (!move) return;
    event.preventDefault();
    const query = within(this.focused.query + move[0], this.matrix.rows.length);
    const key = within(this.focused.key + move[1], this.matrix.columns.length);
    this.handlers.pin({ query, key });
  }
}

function within(index: number, count: number): number {
  return Math.max(0, Math.min(count - 1, index));
}

export function font(): string {
  return `${FONT}px ${getComputedStyle(document.body).fontFamily}`;
}

/** As much of a text as fits into a width, measured as it will be drawn. */
export function fitted(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  const letters = [...text];
  let kept = Math.min(letters.length, 40);
  while (kept > 1 && context.measureText(`${letters.slice(0, kept).join("")}…`).width > width) kept--;
  return `${letters.slice(0, kept).join("")}…`;
}
