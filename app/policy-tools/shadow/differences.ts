// Counts the calls that a shadow policy judged, and those on which it decides otherwise.
export interface ShadowDecision {
  readonly decision: 'allow' | 'deny' | 'confirm' | 'escalate'
  readonly reason?: string
}

/** Calls of one tool with the same two decisions. */
export interface Difference {
  readonly tool: string
  readonly in_force: ShadowDecision['decision']
  readonly shadow: ShadowDecision['decision']
  /** Why one of the two does not allow them. */
  readonly reason: string
  /** The first of them. */
  readonly trace_id: string
}

export interface CountedDifference extends Difference {
  readonly calls: number
}

export type ShadowResult = 'same' | 'different' | 'skipped' | 'failed' | 'unknown'

/** In the form of a record. */
export interface ShadowReport {
  readonly policy_sha256: string | null
  /** Calls that the candidate judged, of all that could be compared. */
  readonly judged: number
  readonly of: number
  readonly failed: number
  /** Calls whose decision rests on what the candidate does not know, such as that of a runtime. */
  readonly unknown: number
  readonly different: number
  readonly differences: readonly CountedDifference[]
}

const MAX_DIFFERENCES = 100
const MAX_NAME = 300

export class Differences {
  #counts: Record<ShadowResult, number> = { same: 0, different: 0, skipped: 0, failed: 0, unknown: 0 }
  #differences = new Map<string, { readonly first: Difference; calls: number }>()

  get hasDifferences(): boolean {
    return this.#counts.different > 0
  }

  add(result: ShadowResult, difference?: Difference): void {
    this.#counts[result]++
    if (difference === undefined) return
    const tool = difference.tool.slice(0, MAX_NAME)
    const key = keyOf({ ...difference, tool })
    const known = this.#differences.get(key)
    if (known !== undefined) known.calls++
    // Callers choose the names of tools; the number of calls counts all.
    else if (this.#differences.size < MAX_DIFFERENCES)
      this.#differences.set(key, { first: { ...difference, tool }, calls: 1 })
  }

  get counts(): Readonly<Record<ShadowResult, number>> {
    return this.#counts
  }

  /** The most frequent differences first. */
  report(policySha256: string | null): ShadowReport {
    const { same, different, skipped, failed, unknown } = this.#counts
    return {
      policy_sha256: policySha256,
      judged: same + different,
      of: same + different + skipped + failed + unknown,
      failed,
      unknown,
      different,
      differences: [...this.#differences.values()]
        .sort((a, b) => b.calls - a.calls)
        .map(({ first, calls }) => ({ ...first, calls })),
    }
  }
}

function keyOf({ tool, in_force, shadow, reason }: Difference): string {
  return JSON.stringify([tool, in_force, shadow, reason])
}
