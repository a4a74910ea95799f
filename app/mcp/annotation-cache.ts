// Learns from the tool lists of servers which tools change something. The policy decides whether these annotations count.
import type { Clock, ToolAnnotations } from '@svc/core'
import { isJsonObject } from '@svc/core/json'
import { formatNameSegment } from '@svc/core/match'
import { targetOf } from '../upstream/target.js'
import { LearnedValues } from './learned-values.js'
import { listedReference } from './references.js'
import type { SharedState } from './shared-state.js'

/** How long an annotation counts after the server last sent it, in milliseconds. */
const annotationTtlMs = 3_600_000
/** Tools that are kept of one server; the tool listed longest ago is removed first. */
const maxTools = 5000

/** The server that sent a list. */
export interface ListSource {
  /** Name of the target, decoded. */
  readonly server: string
  readonly upstream: URL
  /** The version that the server gives itself. */
  readonly version: string
}

export class AnnotationCache implements ToolAnnotations {
  #isUsed = false
  /** `true`, `false` or `none`, by the address of the server and the reference of the tool. */
  #learned: LearnedValues
  #addressOf: (server: string) => string | undefined

  /** `addressOf` has the addresses of servers that are not targets, by their segment in references. */
  constructor(
    state: SharedState,
    clock: Clock,
    addressOf: (server: string) => string | undefined = () => undefined,
  ) {
    this.#addressOf = addressOf
    const bounds = { ttlMs: annotationTtlMs, maxEntries: maxTools }
    this.#learned = new LearnedValues(state, 'mcp-annotations', bounds, clock)
  }

  among(targets: Readonly<Record<string, string>>): (reference: string) => boolean | undefined {
    this.#isUsed = true
    const addresses = new Map(
      Object.entries(targets).map(([server, target]) => [
        formatNameSegment(server),
        targetOf(target).url.href,
      ]),
    )
    return (reference) => {
      const server = reference.slice(scheme.length, reference.indexOf('/', scheme.length))
      const address = addresses.get(server) ?? this.#addressOf(server)
      const learned = address === undefined ? undefined : this.#learned.get(address, reference)
      return learned === undefined || learned === 'none' ? undefined : learned === 'true'
    }
  }

  /**
   * Learns what other gateways have learned, before a call of the tool is judged; undefined if nothing has to be read.
   * Rejects with `Refusal` (`STORE_UNAVAILABLE`) if this gateway knows nothing of the tool.
   */
  refresh({ href }: URL, reference: string): Promise<void> | undefined {
    const refreshing = this.#isUsed ? this.#learned.refresh(href, reference) : undefined
    return refreshing?.catch((error: unknown) => {
      if (this.#learned.get(href, reference) === undefined) throw error
    })
  }

  /** Learns from the result of a `tools/list`, or from one page: the latest annotation of each tool counts. */
  async learn({ server, upstream, version }: ListSource, result: unknown): Promise<void> {
    const tools: unknown = isJsonObject(result) ? result['tools'] : undefined
    if (!this.#isUsed || !Array.isArray(tools)) return
    const facts = [...annotationsIn(tools)].flatMap(([name, changes]): [string, string][] => {
      const reference = listedReference(server, 'tool', name, version)
      return reference === undefined ? [] : [[reference, String(changes ?? 'none')]]
    })
    await this.#learned.learn(upstream.href, facts)
  }
}

/** If two tools have one name, the one that changes something counts, because the server may run either. */
function annotationsIn(tools: readonly unknown[]): Map<string, boolean | undefined> {
  const annotated = new Map<string, boolean | undefined>()
  for (const tool of tools) {
    const { name, annotations } = isJsonObject(tool) ? tool : {}
    if (typeof name !== 'string') continue
    const changes = changesBy(annotations)
    const isDuplicate = annotated.has(name) && annotated.get(name) !== changes
    annotated.set(name, isDuplicate ? true : changes)
  }
  return annotated
}

/**
 * `destructiveHint` has a meaning only beside a `readOnlyHint` that is not true; if both are true, the more dangerous
 * counts. Undefined if neither decides.
 */
function changesBy(annotations: unknown): boolean | undefined {
  const { readOnlyHint, destructiveHint } = isJsonObject(annotations) ? annotations : {}
  if (destructiveHint === true) return true
  return typeof readOnlyHint === 'boolean' ? !readOnlyHint : undefined
}

const scheme = 'mcp://'
