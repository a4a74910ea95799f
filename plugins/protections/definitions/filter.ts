// Judges the definitions of one response: which the caller may get, what is recorded, and who is told.
import {
  type Call,
  type Clock,
  identity,
  type Logger,
  type Meter,
  type Notices,
  principalKeyOf,
  type ReceivedDefinition,
  type RecordEvent,
  verdict,
} from '@svc/core'
import { canonicalize } from '@svc/core/json'
import { definitionFindings } from '../text/definitions.js'
import type { DefinitionsConfig } from './config.js'
import type { Digested, Digests } from './digest.js'
import { type KnownDefinitions, withEntries, withNew } from './known-document.js'
import type { LockedDefinitions } from './lock-file.js'
import { Pins } from './pins.js'
import type { DefinitionRegistry } from './registry.js'
import { type NotedResponse, overLimit, pageKey, type ServedDefinitions } from './served.js'

/** Why a definition is not known. */
export type UnknownReason =
  | 'tool_definition_changed'
  | 'tool_definition_unknown'
  | 'tool_definition_over_limit'

/** Definitions of one response that are judged; those behind them are withheld. */
const maxJudged = 5_000
/** Definitions after which other calls have their turn. */
const judgedAtOnce = 250
const maxNamed = 5

interface Judged extends Digested {
  readonly reason: UnknownReason | undefined
  /** The definition for which its name is refused, which may be a namesake. */
  readonly named: string | undefined
}

export interface DefinitionParts {
  readonly config: DefinitionsConfig
  readonly locked: LockedDefinitions
  readonly registry: DefinitionRegistry
  readonly served: ServedDefinitions
  readonly digests: Digests
  readonly clock: Clock
  readonly logger: Logger | undefined
  readonly meter: Meter | undefined
  readonly notices: Notices | undefined
  readonly record: RecordEvent | undefined
  readonly tenant: string
}

export class CallDefinitions {
  #parts: DefinitionParts
  #call: Call

  constructor(parts: DefinitionParts, call: Call) {
    this.#parts = parts
    this.#call = call
  }

  async mayShow(received: readonly ReceivedDefinition[]): Promise<readonly boolean[]> {
    const { server } = this.#call.target
    const digested = await this.#digested(received)
    const known = await this.#known(server, digested)
    const pins = new Pins(server, known, this.#parts.locked)
    const judged = withNamesakes(
      digested.map((one) => ({ ...one, reason: reasonOf(one, known, pins), named: one.sha256 })),
    )
    const isWithholding = this.isWithholding
    const shown = judged.map(({ reason }) => reason === undefined || !isWithholding)
    const delivered = judged.filter((_one, index) => shown[index])
    await this.#record(server, delivered, known)
    const beyond = received.slice(maxJudged)
    const noted = { ...notedOf(judged, shown), isCut: beyond.length > 0 && isWithholding }
    await this.#parts.served.note(server, callerKeyOf(this.#call, this.#parts.tenant), noted)
    this.#report([
      ...judged,
      ...beyond.map((one) => ({ received: one, reason: 'tool_definition_over_limit' as const })),
    ])
    return [...shown, ...beyond.map(() => !isWithholding)]
  }

  /** In observe mode nothing is withheld. */
  get isWithholding(): boolean {
    return this.#parts.config.effect === 'withhold' && this.#call.get(verdict)?.mode !== 'observe'
  }

  async #digested(received: readonly ReceivedDefinition[]): Promise<readonly Digested[]> {
    const digested: Digested[] = []
    for (const [index, one] of received.slice(0, maxJudged).entries()) {
      if (index > 0 && index % judgedAtOnce === 0) await new Promise((resolve) => setImmediate(resolve))
      digested.push(this.#parts.digests.of(one))
    }
    return digested
  }

  /** Keeps the definitions that no gateway knows. */
  async #known(server: string, digested: readonly Digested[]): Promise<KnownDefinitions> {
    const { registry, clock, config, locked } = this.#parts
    const known = await registry.known(server)
    const isNew = (sha256: string): boolean => known.entry(sha256) === undefined
    const added = digested.flatMap(({ received, sha256 }) => {
      if (sha256 === undefined || !isNew(sha256)) return []
      const text = canonicalize(received.value)
      return [
        {
          ...received,
          sha256,
          text,
          bytes: Buffer.byteLength(text),
          isLocked: locked.has(server, received.kind, sha256),
        },
      ]
    })
    if (added.length === 0) return known
    const at = new Date(clock.now()).toISOString()
    const harmless = config.trust === 'scan' ? await harmlessOf(added) : undefined
    const isFirstTrusted = ({ sha256 }: { readonly sha256: string }) =>
      !locked.hasServer(server) && (config.trust === 'first_use' || harmless?.has(sha256) === true)
    const after = await registry.update(server, (document) => withNew(document, added, at, isFirstTrusted))
    const kept = added.filter(({ sha256 }) => after.entry(sha256)?.at === at)
    if (kept.length === 0) return after
    await registry.keepTexts(
      server,
      kept.map(({ sha256, text }) => [sha256, text]),
    )
    const pins = new Pins(server, after, locked)
    await this.#announce(
      server,
      kept.filter(({ kind, sha256 }) => !pins.has(kind, sha256)),
      pins,
    )
    return after
  }

  /** Records each definition that callers are served, once for its content, before the first of them gets it. */
  async #record(server: string, delivered: readonly Judged[], known: KnownDefinitions): Promise<void> {
    const { record, registry } = this.#parts
    const unrecorded = new Map(
      delivered.flatMap(({ received, sha256 }) =>
        sha256 === undefined ||
        known.entry(sha256)?.recorded !== undefined ||
        known.entry(sha256) === undefined
          ? []
          : [[sha256, received] as const],
      ),
    )
    if (unrecorded.size === 0) return
    const { trace } = this.#call
    await Promise.all(
      [...unrecorded].map(([sha256, { kind, name, value }]) =>
        record?.({
          name: 'definitions/serve',
          traceId: trace.traceId,
          causeSpanId: trace.spanId,
          decision: 'allow',
          findings: [],
          facts: { server, kind, name, sha256, text: canonicalize(value) },
        }),
      ),
    )
    await registry.update(server, (document) =>
      withEntries(document, [...unrecorded.keys()], (entry) => ({ ...entry, recorded: true })),
    )
  }

  /** New definitions that wait: a record and a notice. */
  async #announce(
    server: string,
    waiting: readonly (ReceivedDefinition & { readonly sha256: string })[],
    pins: Pins,
  ): Promise<void> {
    const { record, notices, meter } = this.#parts
    if (waiting.length === 0) return
    const { trace } = this.#call
    const effect = this.isWithholding ? 'deny' : 'reported'
    const changed = waiting.filter(({ kind, name }) => pins.of(kind, name).length > 0)
    meter?.count('svc_definitions_changed_total', changed.length)
    const findings = [
      findingOf('tool_definition_changed', changed),
      findingOf(
        'tool_definition_unknown',
        waiting.filter((one) => !changed.includes(one)),
      ),
    ].flatMap((finding) => (finding === undefined ? [] : [{ ...finding, effect } as const]))
    await record?.({
      name: 'definitions/change',
      traceId: trace.traceId,
      causeSpanId: trace.spanId,
      decision: effect === 'deny' ? 'deny' : 'allow',
      findings,
    })
    const names = waiting.slice(0, maxNamed).map(({ kind, name }) => (name === '' ? kind : name))
    notices?.send({
      type: 'definition.changed',
      data: { server, definitions: names, count: waiting.length, trace_id: trace.traceId },
    })
  }

  #report(judged: readonly Pick<Judged, 'received' | 'reason'>[]): void {
    const { meter } = this.#parts
    const reasons = [
      'tool_definition_changed',
      'tool_definition_unknown',
      'tool_definition_over_limit',
    ] as const
    for (const reason of reasons) {
      const found = judged.filter((one) => one.reason === reason).map(({ received }) => received)
      const finding = findingOf(reason, found)
      if (finding === undefined) continue
      this.#call.addFinding({ ...finding, ruling: 'report' })
      const isOver = reason === 'tool_definition_over_limit'
      if (isOver) meter?.count('svc_definitions_over_limit_total', found.length)
      if (this.isWithholding) meter?.count('svc_definitions_withheld_total', found.length)
    }
  }
}

/** The digests of those in which the rules on texts find nothing. */
async function harmlessOf(
  added: readonly { readonly sha256: string; readonly value: unknown }[],
): Promise<ReadonlySet<string>> {
  const harmless = new Set<string>()
  for (const { sha256, value } of added)
    if ((await definitionFindings(value)).summary === '') harmless.add(sha256)
  return harmless
}

function findingOf(reason: UnknownReason, found: readonly ReceivedDefinition[]) {
  if (found.length === 0) return undefined
  const names = found.slice(0, maxNamed).map(({ kind, name }) => (name === '' ? kind : `${kind} ${name}`))
  const more = found.length > maxNamed ? ` and ${found.length - maxNamed} more` : ''
  return { reason, stage: 'protections', detail: `${names.join(', ')}${more}` }
}

function reasonOf(
  { received: { kind, name }, sha256 }: Digested,
  known: KnownDefinitions,
  pins: Pins,
): UnknownReason | undefined {
  if (sha256 === undefined || known.entry(sha256) === undefined) return 'tool_definition_over_limit'
  if (pins.has(kind, sha256)) return undefined
  return pins.of(kind, name).length > 0 ? 'tool_definition_changed' : 'tool_definition_unknown'
}

/** If a response has a name twice, neither is shown unless both are known: the server may run either. */
function withNamesakes(judged: readonly Judged[]): readonly Judged[] {
  const refused = new Map<string, Pick<Judged, 'reason' | 'named'>>()
  for (const { received, reason, named } of judged) {
    if (reason !== undefined) refused.set(pageKey(received), { reason, named })
  }
  return refused.size === 0
    ? judged
    : judged.map((one) => ({ ...one, ...refused.get(pageKey(one.received)) }))
}

function notedOf(
  judged: readonly Judged[],
  shown: readonly boolean[],
): Pick<NotedResponse, 'served' | 'withheld'> {
  const served: [string, string][] = []
  const withheld: [string, string][] = []
  for (const [index, { received, named, reason }] of judged.entries()) {
    const { kind } = received
    if (kind !== 'tool' && kind !== 'prompt') continue
    const isOver = reason === 'tool_definition_over_limit' || named === undefined
    const entry: [string, string] = [pageKey(received), isOver ? overLimit : named]
    if (shown[index] === true) served.push(entry)
    else withheld.push(entry)
  }
  return { served: Object.fromEntries(served), withheld: Object.fromEntries(withheld) }
}

export function callerKeyOf(call: Call, tenant: string): string {
  return principalKeyOf(call.get(identity) ?? { tenant, authenticated: false })
}
