// Counts the entries of a policy that applied to a tested call, and those that never did.
import type { SectionEntry } from '@svc/core'

export interface CoverageCount {
  readonly kind: SectionEntry['kind']
  readonly applied: number
  readonly total: number
}

const kinds = ['rule', 'plan', 'pattern'] as const

export class Coverage {
  readonly #all: ReadonlyMap<string, SectionEntry>
  readonly #applied = new Set<string>()

  constructor(entries: readonly SectionEntry[]) {
    this.#all = new Map(entries.map((entry) => [keyOf(entry), entry]))
  }

  readonly applied = (entry: SectionEntry): void => {
    this.#applied.add(keyOf(entry))
  }

  /** The counts of the kinds that the policy has. */
  get counts(): CoverageCount[] {
    return kinds.flatMap((kind) => {
      const entries = [...this.#all.values()].filter((entry) => entry.kind === kind)
      const applied = entries.filter((entry) => this.#applied.has(keyOf(entry))).length
      return entries.length === 0 ? [] : [{ kind, applied, total: entries.length }]
    })
  }

  get rules(): SectionEntry[] {
    return [...this.#all.values()].filter(({ kind }) => kind === 'rule')
  }

  get neverApplied(): SectionEntry[] {
    return [...this.#all].flatMap(([key, entry]) => (this.#applied.has(key) ? [] : entry))
  }

  /** The share of all entries, rounded down; 100 for a policy without any. */
  get percent(): number {
    const total = this.#all.size
    return total === 0 ? 100 : Math.floor((100 * (total - this.neverApplied.length)) / total)
  }
}

function keyOf({ path }: SectionEntry): string {
  return JSON.stringify(path)
}
