// Gives each call the filter of definitions, and refuses calls of tools and prompts whose definition is not known.
import {
  after,
  type Call,
  type CallRequest,
  type DefinitionFilter,
  type DefinitionPage,
  definitionFilter,
  type Finding,
  judgedOnly,
  type MaybePromise,
  type Next,
  type Outcome,
  type PluginContext,
  type ReceivedDefinition,
  requestDefinitions,
  resolve,
  resolveOptional,
  type ServedDefinition,
  type Stage,
  type StageHealth,
  servedDefinition,
  services,
  tokens,
} from '@svc/core'
import { CachedPages } from '../shared/cached-pages.js'
import { type OpenMaps, openMaps } from '../shared/store.js'
import { definitionFindings } from '../text/definitions.js'
import type { DefinitionsConfig } from './config.js'
import { Digests } from './digest.js'
import { CallDefinitions, callerKeyOf, type DefinitionOptions } from './filter.js'
import type { UnknownReason } from './judged.js'
import type { KnownDefinitions } from './known-document.js'
import type { LockedDefinitions } from './lock-file.js'
import { Pins } from './pins.js'
import { DefinitionRegistry } from './registry.js'
import { StoredReviews } from './reviews.js'
import { overLimit, pageKey, type Served, ServedDefinitions, withheldText } from './served.js'

const firstUse = {
  first_use: 'is pinned',
  scan: 'is pinned if no rule on texts finds anything in it, else waits for `npx svc-sdk tools accept`',
  accept: 'waits for `npx svc-sdk tools accept`',
} as const

/** A server that the invoke protocol reaches by MCP. */
const mcpTarget = /^(?:mcp\+https?|stdio):/i

export class DefinitionsStage implements Stage, DefinitionFilter {
  #config: DefinitionsConfig
  #locked: LockedDefinitions
  #context: PluginContext
  #maps: OpenMaps | undefined
  #options: DefinitionOptions | undefined

  constructor(config: DefinitionsConfig, locked: LockedDefinitions, context: PluginContext) {
    this.#config = config
    this.#locked = locked
    this.#context = context
  }

  async start(): Promise<void> {
    const { container, tenant } = this.#context
    const clock = resolve(container, tokens.Clock)
    const maps = await openMaps(this.#context)
    this.#maps = maps
    this.#options = {
      config: this.#config,
      locked: this.#locked,
      registry: new DefinitionRegistry(maps, clock),
      served: new ServedDefinitions(maps, clock),
      digests: new Digests(),
      verdicts: new CachedPages(),
      clock,
      logger: resolveOptional(container, tokens.Logger),
      meter: resolveOptional(container, tokens.Meter),
      notices: resolveOptional(container, tokens.Notices),
      record: resolveOptional(container, services.record),
      tenant,
    }
  }

  async stop(): Promise<void> {
    this.#options = undefined
    const maps = this.#maps
    this.#maps = undefined
    await maps?.close()
  }

  health(): StageHealth | undefined {
    const reason = 'the store of definitions is not open'
    return this.#options === undefined ? { state: 'down', reason } : undefined
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    const parts = this.parts
    call.set(definitionFilter, this)
    if (call.isNoted) this.#explain(call)
    if (call.get(judgedOnly) !== undefined) return next()
    return after(call.request(), (request) =>
      request.kind === 'tool' || request.kind === 'prompt'
        ? after(this.#judge(parts, call, request), next)
        : next(),
    )
  }

  /** A caller of a call that is only judged has listed nothing: its definition is taken as one that was pinned. */
  #explain(call: Call): void {
    const { effect, trust, lock } = this.#config
    const then = effect === 'report' ? 'is reported' : 'is withheld from lists, and calls of it are refused'
    call.note(`a definition that is not pinned ${then}`)
    const unless = lock === undefined ? '' : `, unless ${lock} has its server`
    call.note(`the first definition of a name ${firstUse[trust]}${unless}`)
    if (call.get(judgedOnly) !== undefined)
      call.note('assumes that the definition of what is called is pinned')
  }

  withheld(call: Call, page: DefinitionPage): Promise<ReadonlySet<ReceivedDefinition>> {
    return new CallDefinitions(this.parts, call).withheld(page)
  }

  /** @throws {Error} before the start and after the stop */
  get reviews(): StoredReviews {
    const { container, targets } = this.#context
    return new StoredReviews({
      ...this.parts,
      servers: Object.keys(targets),
      ids: resolve(container, tokens.Ids),
    })
  }

  /** @throws {Error} before the start and after the stop */
  get parts(): DefinitionOptions {
    if (this.#options === undefined) throw new Error('the store of definitions is not open')
    return this.#options
  }

  /** Rejects with `Refusal` if it cannot be known what the caller was served. */
  #judge(options: DefinitionOptions, call: Call, request: CallRequest): MaybePromise<void> {
    const { registry, served, tenant } = options
    const kind = request.kind === 'prompt' ? 'prompt' : 'tool'
    const caller = callerKeyOf(call, tenant)
    const lastOf = () => served.of(request.server, caller, pageKey({ kind, name: request.name }))
    const judge = (last: Served, known: KnownDefinitions): void => {
      if (!this.#mayBeDefined(request, known)) return
      call.set(servedDefinition, this.#servedOf(options, request, last, known))
      const reason = this.#reasonOf(request, last, known)
      if (last.withheld === withheldText) call.addFinding(textFinding(request))
      else if (reason !== undefined) call.addFinding(this.#findingOf(reason, request))
    }
    return after(lastOf(), (last) =>
      after(registry.known(request.server), (known) => {
        const isKnown = last.sha256 !== null || last.withheld !== undefined
        if (isKnown || new Pins(request.server, known, this.#locked).of(kind, request.name).length > 0)
          return judge(last, known)
        return this.#fetch(options, call, kind, request.name).then(async (isFetched) =>
          isFetched ? judge(await lastOf(), await registry.known(request.server)) : judge(last, known),
        )
      }),
    )
  }

  /**
   * Takes the definition of a name that the caller has not listed for one that it was served; false if there is none, or the
   * rules on texts find something in it.
   */
  async #fetch(
    options: DefinitionOptions,
    call: Call,
    kind: 'tool' | 'prompt',
    name: string,
  ): Promise<boolean> {
    const listed = (await call.get(requestDefinitions)?.(kind)) ?? []
    const found = listed.filter((one) => one.name === name)
    const findings = await Promise.all(found.map(({ value }) => definitionFindings(value)))
    if (found.length === 0 || findings.some(({ summary }) => summary !== '')) return false
    await new CallDefinitions(options, call).withheld({ sha256: undefined, definitions: () => found })
    return true
  }

  /** A tool that is not called by MCP has no definition, unless its server has sent some. */
  #mayBeDefined({ server, method }: CallRequest, { document }: KnownDefinitions): boolean {
    const target = this.#context.targets[server] ?? ''
    if (method !== null || mcpTarget.test(target) || this.#locked.hasServer(server)) return true
    return Object.keys(document.entries).length > 0
  }

  #servedOf(
    { registry }: DefinitionOptions,
    { server, kind, name }: CallRequest,
    { sha256 }: Served,
    known: KnownDefinitions,
  ): ServedDefinition {
    const ofKind = kind === 'prompt' ? 'prompt' : 'tool'
    const pinned = new Pins(server, known, this.#locked).of(ofKind, name)
    return {
      sha256: sha256 === overLimit ? null : sha256,
      judging: sha256 === null ? pinned : [sha256],
      text: async (one) => this.#locked.textOf(one) ?? (await registry.texts(server, [one]))[0],
    }
  }

  #reasonOf(
    { server, kind, name }: CallRequest,
    last: Served,
    known: KnownDefinitions,
  ): UnknownReason | undefined {
    const pins = new Pins(server, known, this.#locked)
    const kindOf = kind === 'prompt' ? 'prompt' : 'tool'
    const isNamed = pins.of(kindOf, name).length > 0
    const unpinned = isNamed ? 'tool_definition_changed' : 'tool_definition_unknown'
    if (last.withheld !== undefined && !pins.has(kindOf, last.withheld)) return unpinned
    if (last.sha256 !== null) return pins.has(kindOf, last.sha256) ? undefined : unpinned
    if (isNamed) return undefined
    // A tool that nobody has listed has no definition that could wait.
    const { trust } = this.#config
    const isTrusted = trust === 'first_use' || (trust === 'scan' && !known.hasName(kindOf, name))
    return isTrusted && !this.#locked.hasServer(server) ? undefined : unpinned
  }

  #findingOf(reason: UnknownReason, { kind, name }: CallRequest): Finding {
    const ruling = this.#config.effect === 'report' ? 'report' : 'deny'
    const detail = `the definition of ${kind} ${name} is not accepted; npx svc-sdk tools diff shows it`
    return { reason, stage: 'protections', detail, ruling }
  }
}

/** A caller may not call a tool that it is not shown, even if the tool is pinned. */
function textFinding({ kind, name }: CallRequest): Finding {
  const detail = `the definition of ${kind} ${name} is withheld for its text`
  return { reason: 'text_attack', stage: 'protections', level: 'gateway', detail, ruling: 'deny' }
}
