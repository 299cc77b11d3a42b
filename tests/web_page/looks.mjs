// SPDX-License-Identifier: MIT
// Compares what a page looks like with what it looked like when somebody last approved of it: the light of each field
// of a coarse grid, so that another font or another way to smooth edges does not matter and a part that is gone or
// moved does. CHEETAH_APPROVE_LOOKS=1 writes looks.json anew.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";

const kFile = new URL("looks.json", import.meta.url);
const kColumns = 24, kRows = 16;
const kMean = 0.5;   // of 15 steps of light, over all fields
const kFar = 4, kMostFar = 0.04;  // the share of fields that may differ by more steps than kFar

// A string of kColumns * kRows hexadecimal digits, row by row.
async function light_of(browser, png) {
  const page = await browser.newPage();
  try {
    return await page.evaluate(async ([data, columns, rows]) => {
      const image = new Image();
      image.src = `data:image/png;base64,${data}`;
      await image.decode();
      const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height }).getContext("2d");
      canvas.drawImage(image, 0, 0);
      let out = "";
      for (let row = 0; row < rows; ++row)
        for (let column = 0; column < columns; ++column) {
          const [x, y] = [Math.floor(column * image.width / columns), Math.floor(row * image.height / rows)];
          const pixels = canvas.getImageData(x, y, Math.floor(image.width / columns), Math.floor(image.height / rows)).data;
          let sum = 0;
          for (let i = 0; i < pixels.length; i += 4) sum += 0.2126 * pixels[i] + 0.7152 * pixels[i + 1] + 0.0722 * pixels[i + 2];
          out += Math.round(15 * sum / (pixels.length / 4) / 255).toString(16);
        }
      return out;
    }, [png.toString("base64"), kColumns, kRows]);
  } finally {
    await page.close();
  }
}

export async function check_look(browser, name, png) {
  const seen = await light_of(browser, png);
  const approved = JSON.parse(readFileSync(kFile));
  if (process.env.CHEETAH_APPROVE_LOOKS) {
    approved[name] = seen;
    writeFileSync(kFile, `${JSON.stringify(approved, null, 0).replaceAll('",', '",\n').replace("{", "{\n").replace("}", "\n}")}\n`);
    return;
  }
  assert.ok(approved[name], `${name} has no approved look: CHEETAH_APPROVE_LOOKS=1 writes one`);
  const steps = [...seen].map((digit, i) => Math.abs(parseInt(digit, 16) - parseInt(approved[name][i], 16)));
  const mean = steps.reduce((sum, step) => sum + step, 0) / steps.length;
  const far = steps.filter((step) => step > kFar).length / steps.length;
  assert.ok(mean <= kMean && far <= kMostFar,
    `${name} looks different: ${mean.toFixed(2)} steps of light on average, ${(100 * far).toFixed(1)} % of the fields far off`);
}
