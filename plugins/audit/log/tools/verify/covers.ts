// The covers of removed days: hashes that take the place of their leaves.

import { hash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { nodeFileSystem } from '../../files/file-system.js'
import type { PlacedRange } from '../../format/journal-line.js'
import { coverFile } from '../../format/paths.js'
import { alignedSubtrees, type SubtreeRoot } from '../../merkle/leaf-range.js'
import { DIGEST_BYTES, digestFromBytes } from '../../merkle/tree-hash.js'
import { coverOffset } from '../../tree/sealed-leaves.js'
import type { Context } from './inventory.js'
import type { Removal } from './journal-facts.js'

interface Cover {
  /** Content of the cover; undefined if the file is missing or is not the one that the journal names. */
  readonly bytes: Buffer | undefined
  used: number
  hasFailed: boolean
}

export class Covers {
  readonly #context: Context
  readonly #covers = new Map<string, Cover>()

  constructor(context: Context) {
    this.#context = context
  }

  /** The next hashes of the day's cover, which stand for `range`; undefined if they are not known. */
  async next({ day, leaf, lines }: PlacedRange): Promise<readonly SubtreeRoot[] | undefined> {
    const { dir, beginning, facts } = this.#context
    const removal = facts?.removals.get(day)
    if (removal === undefined) return undefined
    const isFirst = !this.#covers.has(day)
    const cover = this.#covers.get(day) ?? this.#read(day, removal)
    this.#covers.set(day, cover)
    if (cover.bytes === undefined) return undefined
    // The hashes of the day's earlier ranges stand before.
    if (isFirst && beginning?.ends.has(day))
      cover.used = await coverOffset({ dir, port: nodeFileSystem }, day, leaf)
    const subtrees: SubtreeRoot[] = []
    for (const { level } of alignedSubtrees(leaf, leaf + lines)) {
      if (cover.used + DIGEST_BYTES > cover.bytes.length) return undefined
      subtrees.push({ root: digestFromBytes(cover.bytes, cover.used), level })
      cover.used += DIGEST_BYTES
    }
    return subtrees
  }

  /** Whether the cover of a day, of which no range was read, is the one that the journal names. */
  check(day: string): void {
    const removal = this.#context.facts?.removals.get(day)
    if (removal !== undefined && !this.#covers.has(day)) this.#read(day, removal)
  }

  /** The hashes of a range of the day are not those that were sealed. */
  differs(day: string): void {
    const cover = this.#covers.get(day)
    if (cover === undefined || cover.hasFailed) return
    cover.hasFailed = true
    this.#context.findings.fail(coverFile(day), 0, 'bad_cover', 'its hashes differ from what was sealed')
  }

  /** Reports covers whose length does not fit the ranges. */
  finish(): void {
    for (const [day, { bytes, used }] of this.#covers) {
      if (bytes === undefined || bytes.length === used) continue
      const message = `${bytes.length} bytes do not fit the ranges of the day, which have ${used}`
      this.#context.findings.fail(coverFile(day), 0, 'bad_cover', message)
    }
  }

  #read(day: string, { line, number }: Removal): Cover {
    const { dir, findings } = this.#context
    const file = coverFile(day)
    const path = join(dir, file)
    const bytes = existsSync(path) ? readFileSync(path) : undefined
    if (bytes !== undefined && hash('sha256', bytes, 'base64') === line.cover) {
      return { bytes, used: 0, hasFailed: false }
    }
    if (bytes !== undefined) {
      findings.fail(file, 0, 'bad_cover', `it is not the cover that audit.journal:${number} names`)
    } else {
      const message = `the cover of a removed day is missing (audit.journal:${number})`
      findings.fail(file, 0, 'missing_file', message)
    }
    return { bytes: undefined, used: 0, hasFailed: true }
  }
}
