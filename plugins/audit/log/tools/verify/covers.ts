// The covers of removed days: hashes that take the place of their leaves.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { sha256Hex } from '@svc/core/json'
import { systemCode } from '../../format/errors.js'
import { coverFile } from '../../format/paths.js'
import { alignedSubtrees } from '../../merkle/aligned-subtrees.js'
import type { SubtreeRoot } from '../../merkle/leaf-range.js'
import { DIGEST_BYTES, digestFromBytes } from '../../merkle/tree-hash.js'
import type { PlacedRange } from '../../tree/seal-ranges.js'
import type { Findings } from './findings.js'
import type { Removal } from './journal-facts.js'

interface Cover {
  /** Undefined where the file is missing or is not the one that the journal names. */
  readonly bytes: Buffer | undefined
  used: number
}

export class Covers {
  readonly #covers = new Map<string, Cover>()
  readonly #failed = new Set<string>()

  constructor(
    readonly dir: string,
    readonly removals: ReadonlyMap<string, Removal>,
    readonly findings: Findings,
  ) {}

  /** The next hashes of the day's cover, which stand for `range`; undefined where they are not known. */
  next(range: PlacedRange, removal: Removal): readonly SubtreeRoot[] | undefined {
    const cover = this.#covers.get(range.day) ?? this.#read(range.day, removal)
    this.#covers.set(range.day, cover)
    if (cover.bytes === undefined) return undefined
    const subtrees: SubtreeRoot[] = []
    for (const { level } of alignedSubtrees(range.leaf, range.leaf + range.lines)) {
      if (cover.used + DIGEST_BYTES > cover.bytes.length) return undefined
      subtrees.push({ root: digestFromBytes(cover.bytes, cover.used), level })
      cover.used += DIGEST_BYTES
    }
    return subtrees
  }

  hasFailed(day: string): boolean {
    return this.#failed.has(day)
  }

  failed(day: string): void {
    this.#failed.add(day)
  }

  /** Reports covers whose length does not fit the ranges. */
  finish(): void {
    for (const [day, { bytes, used }] of this.#covers) {
      if (bytes === undefined || bytes.length === used) continue
      const message = `${bytes.length} bytes do not fit the ranges of the day, which have ${used}`
      this.findings.fail({ file: coverFile(day), line: 0, kind: 'bad_cover', message })
    }
  }

  #read(day: string, { line, number }: Removal): Cover {
    const file = coverFile(day)
    const place = { file, line: 0 }
    try {
      const bytes = readFileSync(join(this.dir, file))
      if (sha256Hex(bytes) === Buffer.from(line.cover, 'base64').toString('hex')) return { bytes, used: 0 }
      const message = `it is not the cover that audit.journal:${number} names`
      this.findings.fail({ ...place, kind: 'bad_cover', message })
    } catch (error) {
      if (systemCode(error) !== 'ENOENT') throw error
      const message = `the cover of a removed day is missing (audit.journal:${number})`
      this.findings.fail({ ...place, kind: 'missing_file', message })
    }
    this.#failed.add(day)
    return { bytes: undefined, used: 0 }
  }
}
