// Learns from the lists that pass through which tools change something, in the words of their servers. Whether these
// words count is the policy's to say.
import type { Clock, ToolAnnotations } from '@svc/core'
import { formatReference, ReferenceInputError } from '@svc/core/match'
import { targetOf } from '../upstream/target.js'
import { isFields } from './listing.js'

/** A server that takes a word back is believed no longer than this, in milliseconds. */
const believedMs = 3_600_000
/** Of one server; the one that was heard of longest ago goes first. */
const maxTools = 5000

interface Learned {
  readonly changes: boolean
  /** By the monotonic clock, milliseconds. */
  readonly until: number
}

/** Where a list comes from. */
export interface ListSource {
  /** Name of the target, decoded. */
  readonly server: string
  readonly upstream: URL
  /** The version that the server gives itself. */
  readonly version: string
}

export class AnnotationCache implements ToolAnnotations {
  #clock: Clock
  #isWanted = false
  /** By the address of the server, then by the reference of the tool. */
  #known = new Map<string, Map<string, Learned>>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  among(targets: Readonly<Record<string, string>>): (reference: string) => boolean | undefined {
    this.#isWanted = true
    const addresses = new Map(
      Object.entries(targets).map(([server, target]) => [segmentOf(server), targetOf(target).url.href]),
    )
    return (reference) => {
      const address = addresses.get(reference.slice(scheme.length, reference.indexOf('/', scheme.length)))
      const learned = address === undefined ? undefined : this.#known.get(address)?.get(reference)
      return learned === undefined || this.#clock.monotonic() >= learned.until ? undefined : learned.changes
    }
  }

  /** The result of a `tools/list`, or one page of it: the last word on each tool counts. */
  learn({ server, upstream, version }: ListSource, result: unknown): void {
    const tools: unknown = isFields(result) ? result['tools'] : undefined
    if (!this.#isWanted || !Array.isArray(tools)) return
    const known = this.#known.get(upstream.href) ?? new Map<string, Learned>()
    this.#known.set(upstream.href, known)
    const until = this.#clock.monotonic() + believedMs
    for (const [name, changes] of saidIn(tools)) {
      const reference = referenceOf(server, name, version)
      if (reference === undefined) continue
      known.delete(reference)
      if (changes !== undefined) known.set(reference, { changes, until })
    }
    for (const reference of known.keys()) {
      if (known.size <= maxTools) break
      known.delete(reference)
    }
  }
}

/** Of two tools of one name, the one that changes something counts: nobody knows which will be run. */
function saidIn(tools: readonly unknown[]): Map<string, boolean | undefined> {
  const said = new Map<string, boolean | undefined>()
  for (const tool of tools) {
    const { name, annotations } = isFields(tool) ? tool : {}
    if (typeof name !== 'string') continue
    const changes = changesBy(annotations)
    const isTwin = said.has(name) && said.get(name) !== changes
    said.set(name, isTwin ? true : changes)
  }
  return said
}

/**
 * `destructiveHint` has a meaning only beside a `readOnlyHint` that is not true; where both are true, the server
 * contradicts itself, and the worse is believed. Undefined where neither decides.
 */
function changesBy(annotations: unknown): boolean | undefined {
  const { readOnlyHint, destructiveHint } = isFields(annotations) ? annotations : {}
  if (destructiveHint === true) return true
  return typeof readOnlyHint === 'boolean' ? !readOnlyHint : undefined
}

const scheme = 'mcp://'

/** The server as it stands in references. */
function segmentOf(server: string): string {
  const ofAny = formatReference({ server, tool: 'x', version: '1' })
  return ofAny.slice(scheme.length, ofAny.indexOf('/', scheme.length))
}

/** Undefined for a name that no call could carry. */
function referenceOf(server: string, tool: string, version: string): string | undefined {
  try {
    return formatReference({ server, tool, version })
  } catch (fault) {
    if (fault instanceof ReferenceInputError) return undefined
    throw fault
  }
}
