// A program in the place of `xdg-open`: the browser of `browser.ts` follows the URL.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const browser = fileURLToPath(new URL('./browser.js', import.meta.url))

/** Creates the directory with the program, which appends each URL to the file `opened` beside itself. */
export function writeOpener(bin: string): void {
  mkdirSync(bin)
  writeFileSync(join(bin, 'opened'), '')
  writeFileSync(
    join(bin, 'xdg-open'),
    `#!/bin/sh\necho "$1" >> "${join(bin, 'opened')}"\nexec "${process.execPath}" "${browser}" "$1"\n`,
    { mode: 0o755 },
  )
}
