// Builds one HTML file with everything inside, and puts it into the Python package: users never need Node.
import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { defineConfig, type Plugin } from "vite";

const TEMPLATE = process.env.PAGE_FILE ?? resolve(import.meta.dirname, "../src/regard/look/page.html");

function intoPackage(): Plugin {
  return {
    name: "into-package",
    enforce: "post",
    generateBundle(_options, bundle) {
      let script = "";
      let style = "";
      for (const part of Object.values(bundle)) {
        if (part.type === "chunk") script += part.code;
        else if (part.fileName.endsWith(".css")) style += part.source.toString();
      }
      // What ends an element inside a script or style must not stand there, not even in a string.
      script = script.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
      writeFileSync(TEMPLATE, page(script.trim(), style.trim()));
    },
  };
}

function page(script: string, style: string): string {
  return [
    "<!doctype html>",
    '<html lang="en">',
    "<head>",
    '<meta charset="utf-8">',
    "<!--regard-policy-->",
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    '<meta name="color-scheme" content="light dark">',
    '<link rel="icon" href="data:,">',
    "<title>regard</title>",
    `<style>${style}</style>`,
    "</head>",
    "<body>",
    '<noscript>This page draws itself with a script of its own; switch scripts on to see it.</noscript>',
    '<div id="app"></div>',
    "<!--regard-data-->",
    `<script>${script}</script>`,
    "</body>",
    "</html>",
    "",
  ].join("\n");
}

export default defineConfig({
  plugins: [intoPackage()],
  build: {
    target: "es2022",
    outDir: "dist",
    cssCodeSplit: false,
    modulePreload: false,
    lib: { entry: "src/main.ts", formats: ["iife"], name: "regardPage", fileName: "page" },
  },
});
