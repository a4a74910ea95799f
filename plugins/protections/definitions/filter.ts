// Judges the definitions of one response: decides which the caller gets, what is recorded, and who is notified.
import {
  type Call,
  type Clock,
  type DefinitionPage,
  identity,
  type Logger,
  type Meter,
  type Notices,
  principalKeyOf,
  type ReceivedDefinition,
  type RecordEvent,
  verdict,
} from '@svc/core'
import { canonicalizeExact } from '@svc/core/json'
import { type CachedPages, maxKeptFindings } from '../shared/cached-pages.js'
import { definitionTexts } from '../shared/definition-texts.js'
import { definitionFindings } from '../text/definitions.js'
import type { DefinitionsConfig } from './config.js'
import type { Definition, Digested, Digests } from './digest.js'
import {
  type EvaluatedDefinition,
  maxNamed,
  pagesOf,
  type Unknown,
  unknownFindingOf,
  unknownIn,
  unknownReasonOf,
  withNamesakes,
} from './judged.js'
import { type KnownDefinitions, withEntries, withNew } from './known-document.js'
import type { LockedDefinitions } from './lock-file.js'
import { Pins } from './pins.js'
import type { DefinitionRegistry } from './registry.js'
import { type NotedAgain, pageKey, roomFor, type ServedDefinitions } from './served.js'

/** Definitions after which other calls have their turn. */
const judgedAtOnce = 250

/** The findings in a page whose definitions are on record, for all callers who get it. */
export interface PageVerdict {
  readonly noted: NotedAgain
  /** Places of the definitions that are withheld. */
  readonly withheld: readonly number[]
  readonly unknown: readonly Unknown[]
}

export interface DefinitionOptions {
  readonly config: DefinitionsConfig
  readonly locked: LockedDefinitions
  readonly registry: DefinitionRegistry
  readonly served: ServedDefinitions
  readonly digests: Digests
  /** On the basis of what is known of the server. */
  readonly verdicts: CachedPages<PageVerdict>
  readonly clock: Clock
  readonly logger: Logger | undefined
  readonly meter: Meter | undefined
  readonly notices: Notices | undefined
  readonly record: RecordEvent | undefined
  readonly tenant: string
}

const nothing: ReadonlySet<ReceivedDefinition> = new Set()

export class CallDefinitions {
  #options: DefinitionOptions
  #call: Call

  constructor(options: DefinitionOptions, call: Call) {
    this.#options = options
    this.#call = call
  }

  async withheld(page: DefinitionPage): Promise<ReadonlySet<ReceivedDefinition>> {
    const { registry, verdicts, served } = this.#options
    const { server } = this.#call.target
    const texts = this.#call.get(definitionTexts)
    const known = await registry.known(server)
    const attacks =
      (await texts?.withheld(this.#call, page, new Pins(server, known, this.#options.locked))) ?? nothing
    // The findings of rules on texts depend on more than the page and the known document, so they are not kept.
    const isKept = attacks.size === 0 && page.sha256 !== undefined
    const key = isKept ? `${page.sha256} ${this.#isWithholding}` : undefined
    const kept = verdicts.get(server, key, known)
    if (kept !== undefined && (await served.noteAgain(server, this.#caller, kept.noted))) {
      this.#report(kept.unknown)
      return kept.withheld.length === 0 ? nothing : at(page.definitions(), kept.withheld)
    }
    const definitions = page.definitions()
    if (!definitions.some(isDefinition)) return attacks
    const verdict = await this.#judge(definitions.filter(isDefinition), attacks, known)
    const mayShow = (one: ReceivedDefinition) =>
      !attacks.has(one) && (!isDefinition(one) || verdict.mayShow(one))
    const withheld = definitions.flatMap((one, index) => (mayShow(one) ? [] : [index]))
    const { isSettled, noted, unknown, pins } = verdict
    // A name that nobody is shown is not the server's: it would make others' tools look like imitations.
    texts?.learn(server, definitions.filter(mayShow), pins)
    if (isSettled && withheld.length <= maxKeptFindings)
      verdicts.set(server, key, known, { noted, withheld, unknown })
    return at(definitions, withheld)
  }

  async #judge(
    received: readonly Definition[],
    attacks: ReadonlySet<ReceivedDefinition>,
    before: KnownDefinitions,
  ) {
    const { locked, served } = this.#options
    const { server } = this.#call.target
    const isWithholding = this.#isWithholding
    const digested = await this.#digested(received)
    const known = await this.#known(server, digested, before)
    const pins = new Pins(server, known, locked)
    const judged = withNamesakes(
      digested.map((one) => ({ ...one, reason: unknownReasonOf(one, known, pins), named: one.sha256 })),
    )
    const isShown = ({ received: one, reason }: EvaluatedDefinition): boolean =>
      !attacks.has(one) && (reason === undefined || !isWithholding)
    await this.#record(server, judged.filter(isShown), known)
    const unjudged = received.slice(judged.length)
    const response = { ...pagesOf(judged, attacks, isShown), isCut: unjudged.length > 0 && isWithholding }
    const hash = await served.note(server, this.#caller, response)
    const unknown = unknownIn(judged, unjudged)
    this.#report(unknown)
    const shown = new Set<ReceivedDefinition>(judged.filter(isShown).map((one) => one.received))
    for (const one of isWithholding ? [] : unjudged) if (!attacks.has(one)) shown.add(one)
    return {
      mayShow: (one: Definition) => shown.has(one),
      noted: { served: hash, withheld: response.withheld },
      unknown,
      pins,
      /** Another day may have room for those over the limit. All other changes are ones of what is known. */
      isSettled: !unknown.some(({ reason }) => reason === 'tool_definition_over_limit'),
    }
  }

  /** In observe mode nothing is withheld. */
  get #isWithholding(): boolean {
    return this.#options.config.effect === 'withhold' && this.#call.get(verdict)?.mode !== 'observe'
  }

  get #caller(): string {
    return callerKeyOf(this.#call, this.#options.tenant)
  }

  /** The definitions of a page that can be noted as served; of a larger page the first ones. */
  async #digested(received: readonly Definition[]): Promise<readonly Digested[]> {
    const digested: Digested[] = []
    for (const [index, one] of received.slice(0, roomFor(received.map(pageKey))).entries()) {
      if (index > 0 && index % judgedAtOnce === 0) await new Promise((resolve) => setImmediate(resolve))
      digested.push(this.#options.digests.of(one))
    }
    return digested
  }

  /** Keeps the definitions that no gateway knows. */
  async #known(
    server: string,
    digested: readonly Digested[],
    known: KnownDefinitions,
  ): Promise<KnownDefinitions> {
    const { registry, clock, config, locked } = this.#options
    const added = digested.flatMap(({ received, sha256 }) => {
      if (sha256 === undefined || known.entry(sha256) !== undefined) return []
      const text = canonicalizeExact(received.value).text
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
  async #record(
    server: string,
    delivered: readonly EvaluatedDefinition[],
    known: KnownDefinitions,
  ): Promise<void> {
    const { record, registry } = this.#options
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
          facts: { server, kind, name, sha256, text: canonicalizeExact(value).text },
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
    waiting: readonly (Definition & { readonly sha256: string })[],
    pins: Pins,
  ): Promise<void> {
    const { record, notices, meter } = this.#options
    if (waiting.length === 0) return
    const { trace } = this.#call
    const effect = this.#isWithholding ? 'deny' : 'reported'
    const changed = waiting.filter(({ kind, name }) => pins.of(kind, name).length > 0)
    meter?.count('svc_definitions_changed_total', changed.length)
    const findings = [
      unknownFindingOf('tool_definition_changed', changed),
      unknownFindingOf(
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

  #report(unknown: readonly Unknown[]): void {
    const { meter } = this.#options
    for (const { reason, count, detail } of unknown) {
      this.#call.addFinding({ reason, stage: 'protections', detail, ruling: 'report' })
      if (reason === 'tool_definition_over_limit') meter?.count('svc_definitions_over_limit_total', count)
      if (this.#isWithholding) meter?.count('svc_definitions_withheld_total', count)
    }
  }
}

function at(
  definitions: readonly ReceivedDefinition[],
  places: readonly number[],
): ReadonlySet<ReceivedDefinition> {
  return new Set(places.flatMap((place) => definitions[place] ?? []))
}

function isDefinition(received: ReceivedDefinition): received is Definition {
  return received.kind !== 'resource'
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

export function callerKeyOf(call: Call, tenant: string): string {
  return principalKeyOf(call.get(identity) ?? { tenant, authenticated: false })
}
