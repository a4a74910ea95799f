// Learns from the tool lists of servers which tools change something. Whether these annotations count is decided by the
// policy.
import type { Clock, ToolAnnotations } from '@svc/core'
import { formatReference, ReferenceInputError } from '@svc/core/match'
import { targetOf } from '../upstream/target.js'
import { isFields } from './listing.js'

/** How long an annotation counts after the server last sent it, in milliseconds. */
const annotationTtlMs = 3_600_000
/** Per server; the tool listed longest ago is removed first. */
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
  #isUsed = false
  /** By the address of the server, then by the reference of the tool. */
  #known = new Map<string, Map<string, Learned>>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  among(targets: Readonly<Record<string, string>>): (reference: string) => boolean | undefined {
    this.#isUsed = true
    const addresses = new Map(
      Object.entries(targets).map(([server, target]) => [segmentOf(server), targetOf(target).url.href]),
    )
    return (reference) => {
      const address = addresses.get(reference.slice(scheme.length, reference.indexOf('/', scheme.length)))
      const learned = address === undefined ? undefined : this.#known.get(address)?.get(reference)
      return learned === undefined || this.#clock.monotonic() >= learned.until ? undefined : learned.changes
    }
  }

  /** The result of a `tools/list`, or one page of it: the latest annotation of each tool counts. */
  learn({ server, upstream, version }: ListSource, result: unknown): void {
    const tools: unknown = isFields(result) ? result['tools'] : undefined
    if (!this.#isUsed || !Array.isArray(tools)) return
    const known = this.#known.get(upstream.href) ?? new Map<string, Learned>()
    this.#known.set(upstream.href, known)
    const until = this.#clock.monotonic() + annotationTtlMs
    for (const [name, changes] of annotationsIn(tools)) {
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

/** Of two tools of one name, the one that changes something counts, as the server may run either. */
function annotationsIn(tools: readonly unknown[]): Map<string, boolean | undefined> {
  const annotated = new Map<string, boolean | undefined>()
  for (const tool of tools) {
    const { name, annotations } = isFields(tool) ? tool : {}
    if (typeof name !== 'string') continue
    const changes = changesBy(annotations)
    const isDuplicate = annotated.has(name) && annotated.get(name) !== changes
    annotated.set(name, isDuplicate ? true : changes)
  }
  return annotated
}

/**
 * `destructiveHint` has a meaning only beside a `readOnlyHint` that is not true; where both are true, the more dangerous
 * counts. Undefined where neither decides.
 */
function changesBy(annotations: unknown): boolean | undefined {
  const { readOnlyHint, destructiveHint } = isFields(annotations) ? annotations : {}
  if (destructiveHint === true) return true
  return typeof readOnlyHint === 'boolean' ? !readOnlyHint : undefined
}

const scheme = 'mcp://'

/** The server's segment in references. */
function segmentOf(server: string): string {
  const ofAny = formatReference({ server, tool: 'x', version: '1' })
  return ofAny.slice(scheme.length, ofAny.indexOf('/', scheme.length))
}

/** Undefined for a name that can have no reference. */
function referenceOf(server: string, tool: string, version: string): string | undefined {
  try {
    return formatReference({ server, tool, version })
  } catch (fault) {
    if (fault instanceof ReferenceInputError) return undefined
    throw fault
  }
}
