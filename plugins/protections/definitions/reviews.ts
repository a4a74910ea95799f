// Definitions that wait, for the people who accept them: all of a server are one review, and what is accepted is what was read.
import { type DefinitionKind, type Ids, Refusal, type Reviewer, token } from '@svc/core'
import { defined, sha256Hex } from '@svc/core/json'
import type { DefinitionOptions } from './filter.js'
import { withEntries } from './known-document.js'
import { Pins } from './pins.js'

/** A definition that waits until somebody accepts it. */
export interface WaitingDefinition {
  readonly kind: DefinitionKind
  readonly name: string
  readonly sha256: string
  /** ISO 8601: when it was first received. */
  readonly at: string
  /** Canonical JSON; absent if the text was evicted. */
  readonly text?: string
  /** Canonical JSON of the definitions with its name that are pinned. */
  readonly pinned: readonly string[]
}

/** All definitions of a server that wait. */
export interface ServerReview {
  readonly server: string
  /** Names this set of definitions: an acceptance of it covers no others. */
  readonly review: string
  readonly definitions: readonly WaitingDefinition[]
}

/** The questions and decisions of people about definitions, outside calls. Rejects with `Refusal`. */
export interface DefinitionReviews {
  /** The servers with definitions that wait. */
  waiting(): Promise<readonly ServerReview[]>
  /** Pins the definitions of a review; each acceptance is recorded. `BAD_REQUEST` if others wait now. */
  accept(server: string, review: string, by: Reviewer): Promise<ServerReview>
}

export const definitionReviews = token<DefinitionReviews>('DefinitionReviews')

/** Hexadecimal digits of the name of a review. */
const reviewDigits = 16

type ReviewOptions = Pick<DefinitionOptions, 'locked' | 'notices' | 'record' | 'registry'> & {
  readonly servers: readonly string[]
  readonly ids: Ids
}

export class StoredReviews implements DefinitionReviews {
  #options: ReviewOptions

  constructor(options: ReviewOptions) {
    this.#options = options
  }

  async waiting(): Promise<readonly ServerReview[]> {
    const { servers } = this.#options
    const reviews = await Promise.all(servers.map((server) => this.#of(server)))
    return reviews.filter(({ definitions }) => definitions.length > 0)
  }

  async accept(server: string, review: string, by: Reviewer): Promise<ServerReview> {
    const { registry, record, notices, ids, servers } = this.#options
    if (!servers.includes(server)) throw new Refusal('BAD_REQUEST', `No target is named "${server}".`)
    const waiting = await this.#of(server)
    if (waiting.definitions.length === 0 || waiting.review !== review) {
      const now = waiting.definitions.length === 0 ? 'nothing waits' : `the review is ${waiting.review}`
      throw new Refusal('BAD_REQUEST', `The definitions of "${server}" are not those of ${review}: ${now}.`)
    }
    const accepted = waiting.definitions.map(({ kind, name, sha256 }) => ({ kind, name, sha256 }))
    const traceId = ids.traceId()
    const user = by.kind === 'user' ? by.identity : undefined
    // Before the change: a pin without a record could not be explained.
    await record?.({
      name: 'definitions/accept',
      traceId,
      decision: 'allow',
      findings: [],
      ...(user === undefined ? {} : { principal: user, tenant: user.tenant }),
      facts: { by: user === undefined ? 'admin token' : 'user', server, review, definitions: accepted },
    })
    await registry.update(server, (document) =>
      withEntries(
        document,
        accepted.map(({ sha256 }) => sha256),
        (entry) => ({ ...entry, state: 'accepted' }),
      ),
    )
    const names = accepted.map(({ kind, name }) => (name === '' ? kind : name))
    notices?.send({
      type: 'definition.accepted',
      data: { server, review, definitions: names.slice(0, 5), count: names.length, trace_id: traceId },
    })
    return waiting
  }

  async #of(server: string): Promise<ServerReview> {
    const { registry, locked } = this.#options
    const known = await registry.known(server)
    const pins = new Pins(server, known, locked)
    const waiting = Object.entries(known.document.entries).filter(
      ([sha256, { kind }]) => !pins.has(kind, sha256),
    )
    const texts = await registry.texts(
      server,
      waiting.map(([sha256]) => sha256),
    )
    const definitions = await Promise.all(
      waiting.map(async ([sha256, { kind, name, at }], index): Promise<WaitingDefinition> => {
        const text = texts[index]
        const pinned = await this.#textsOf(server, pins.of(kind, name))
        return { kind, name, sha256, at, ...defined({ text }), pinned }
      }),
    )
    const hashes = waiting.map(([sha256]) => sha256).sort()
    return { server, review: sha256Hex(hashes.join(' ')).slice(0, reviewDigits), definitions }
  }

  async #textsOf(server: string, hashes: readonly string[]): Promise<readonly string[]> {
    if (hashes.length === 0) return []
    const kept = await this.#options.registry.texts(server, hashes)
    return hashes.flatMap((sha256, index) => this.#options.locked.textOf(sha256) ?? kept[index] ?? [])
  }
}
