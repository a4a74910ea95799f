// The attacks of docs/threat-model.yaml, for their test and for the page that is generated from them.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { root } from './pages.js'

export interface Attack {
  readonly attack: string
  readonly stride: string
  readonly controls: readonly string[]
  /** Files, with the title of one test as the fragment of a link has it. */
  readonly tests: readonly string[]
}

export const attacksByArea = parse(readFileSync(join(root, 'docs', 'threat-model.yaml'), 'utf8')) as Readonly<
  Record<string, readonly Attack[]>
>
