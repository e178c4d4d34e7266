// Matrices on canvas: thousands of cells are one picture, and pointing at one of them costs no redraw of the rest.

import { colours, diverging, ramp } from "./colour";

export const DENSITY = () => Math.min(3, window.devicePixelRatio || 1);

/** A picture with one pixel a cell, or fewer where a small map would not show them; each pixel is its cells' largest. */
export function cells(values: Float32Array | Uint8Array, rows: number, columns: number, most = Infinity): HTMLCanvasElement {
  const high = Math.min(rows, most);
  const wide = Math.min(columns, most);
  const full = values instanceof Uint8Array ? 1 : 255;
  const peak = new Uint8Array(high * wide);
  for (let row = 0; row < rows; row++) {
    const y = high === rows ? row : Math.floor((row * high) / rows);
    for (let column = 0; column < columns; column++) {
      const x = wide === columns ? column : Math.floor((column * wide) / columns);
      const byte = Math.min(255, values[row * columns + column] * full);
      if (byte > peak[y * wide + x]) peak[y * wide + x] = byte;
    }
  }
  return painted(peak, high, wide);
}

function painted(peak: Uint8Array, rows: number, columns: number): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d")!;
  const image = context.createImageData(columns, rows);
  const table = ramp(colours());
  for (let index = 0; index < peak.length; index++) {
    image.data.set(table.subarray(peak[index] * 3, peak[index] * 3 + 3), index * 4);
    image.data[index * 4 + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/** A map of numbers of either sign, such as vectors by index. */
export function signedMap(values: Float32Array, rows: number, columns: number, label: string): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  canvas.className = "map";
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", label);
  const context = canvas.getContext("2d")!;
  const palette = colours();
  let largest = 1e-9;
  for (const value of values) largest = Math.max(largest, Math.abs(value));
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const share = values[row * columns + column] / largest;
      context.fillStyle = diverging(share * Math.abs(share), palette); // squared, as the colours take the root
      context.fillRect(column, row, 1, 1);
    }
  }
  return canvas;
}

/** A small strip of numbers of either sign: one vector. */
export function strip(values: ArrayLike<number>, largest: number, label: string): HTMLCanvasElement {
  const scaled = Float32Array.from(values, (value) => value / (largest || 1));
  const canvas = document.createElement("canvas");
  canvas.width = scaled.length;
  canvas.height = 1;
  canvas.className = "strip";
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", label);
  const context = canvas.getContext("2d")!;
  const palette = colours();
  scaled.forEach((value, index) => {
    context.fillStyle = diverging(value, palette);
    context.fillRect(index, 0, 1, 1);
  });
  return canvas;
}

export function sized(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const density = DENSITY();
  canvas.width = Math.round(width * density);
  canvas.height = Math.round(height * density);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d")!;
  context.setTransform(density, 0, 0, density, 0, 0);
  return context;
}
