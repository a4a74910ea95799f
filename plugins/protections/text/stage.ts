// Looks for attacks on the model in what servers say, and for secrets and disguised commands in what the model sends.
import {
  after,
  type Call,
  type CallRequest,
  type DefinitionFilter,
  type DefinitionPage,
  definitionFilter,
  type Finding,
  type MaybePromise,
  type Meter,
  type Next,
  type Outcome,
  type ReceivedDefinition,
  resolveOptional,
  responseChange,
  type Stage,
  tokens,
  verdict,
} from '@svc/core'
import { isJsonObject } from '@svc/core/json'
import { type ResponseRewriter, rewriteOutcome } from '@svc/core/response'
import { type DefinitionTextFilter, definitionTexts, type ReviewedNames } from '../shared/definition-texts.js'
import { defineProtection } from '../shared/protection.js'
import { ReadingBudget } from '../shared/reading-budget.js'
import { type TextConfig, textConfig, textSchema } from './config.js'
import { DefinitionTexts, summaryOf } from './definitions.js'
import { TextScanner } from './scan.js'
import { removedMark } from './strip.js'
import { OVERLAP } from './text-stream.js'
import { TextSearch } from './texts.js'

/** The reasons of findings: text that attacks the model; a secret that leaves; a command that is disguised; a part not read. */
const textReasons = [
  'text_attack',
  'secret_in_arguments',
  'disguised_command',
  'personal_data_in_arguments',
  'text_unchecked',
] as const

const reasonOfClass: Readonly<Record<string, (typeof textReasons)[number]>> = {
  secret: 'secret_in_arguments',
  command: 'disguised_command',
  personal: 'personal_data_in_arguments',
}

type Fields = Readonly<Record<string, unknown>>

const nothing: ReadonlySet<ReceivedDefinition> = new Set()

class TextStage implements Stage, DefinitionFilter, DefinitionTextFilter {
  #effects: TextConfig['effects']
  #meter: Meter | undefined
  #arguments: TextScanner
  #results: TextScanner
  #definitions: DefinitionTexts

  constructor({ effects, disabled }: TextConfig, meter: Meter | undefined) {
    this.#effects = effects
    this.#meter = meter
    this.#arguments = new TextScanner('argument', disabled)
    this.#results = new TextScanner('result', disabled)
    this.#definitions = new DefinitionTexts(new TextScanner('definition', disabled), disabled)
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    if (this.#effects.definition !== 'off') {
      call.set(definitionTexts, this)
      // The protection of definitions, which is outside, asks for what is withheld here.
      if (call.get(definitionFilter) === undefined) call.set(definitionFilter, this)
    }
    return after(call.request(), (request) =>
      after(this.#checkArguments(call, request), () =>
        after(next(), (outcome) => this.#checked(call, request, outcome)),
      ),
    )
  }

  /** Checks a protocol's message too: the client's response to a server, or an unknown method, can have a secret. */
  #checkArguments(call: Call, { args, params, name }: CallRequest): MaybePromise<void> {
    if (this.#effects.argument === 'off') return
    return this.#searchArguments(call, params === undefined ? args : { arguments: args, params }, name)
  }

  async #searchArguments(call: Call, value: unknown, name: string): Promise<void> {
    const search = new TextSearch(this.#arguments)
    await search.value(value)
    await search.value(name, '/name')
    for (const reason of textReasons) {
      const found = search.found.filter(
        ({ finding }) => (reasonOfClass[finding.rule.class] ?? 'text_attack') === reason,
      )
      if (found.length === 0) continue
      const isDenied = this.#effects.argument === 'deny' && found.some(({ finding }) => finding.certain)
      call.addFinding({ ...findingOf(reason, summaryOf(found)), ruling: isDenied ? 'deny' : 'report' })
      this.#meter?.count('svc_text_findings_total', found.length)
    }
    if (search.isIncomplete) this.#reportUnchecked(call, 'the arguments', this.#effects.argument === 'deny')
  }

  #checked(call: Call, request: CallRequest, outcome: Outcome): MaybePromise<Outcome> {
    const { definition, result } = this.#effects
    if (definition === 'off' && result === 'off') return outcome
    const isObserved = call.get(verdict)?.mode === 'observe'
    const isStripping = result === 'strip' && !isObserved
    const isChanging = isStripping || result === 'withhold' || definition === 'withhold'
    if (isChanging && !isObserved) call.set(responseChange, true)
    return rewriteOutcome(call, request, outcome, this.#rewriter(call, isStripping, isObserved))
  }

  #rewriter(call: Call, isStripping: boolean, isObserved: boolean): ResponseRewriter {
    const { result } = this.#effects
    // Of all parts of the response, such as the events of a stream.
    const budget = new ReadingBudget()
    const inResult = (value: unknown): Promise<unknown> =>
      this.#inResult(call, value, budget, isStripping, isObserved)
    return {
      result: (value, method) =>
        isJsonObject(value) && method !== null && describing.has(method)
          ? this.#inOthers(value, inResult)
          : inResult(value),
      error: inResult,
      message: async (message) => {
        const shown = await inResult(message)
        return isJsonObject(shown) ? shown : undefined
      },
      json: inResult,
      text: async (text) => String(await inResult(text)),
      unreadable: undefined,
      unread: () => {
        this.#reportUnchecked(call, 'the response', result === 'withhold' && !isObserved)
        return isStripping ? removedMark('too long to be checked') : undefined
      },
      spansEvents: false,
      context: OVERLAP,
    }
  }

  async #inResult(
    call: Call,
    value: unknown,
    budget: ReadingBudget,
    isStripping: boolean,
    isObserved: boolean,
  ): Promise<unknown> {
    const { result } = this.#effects
    if (result === 'off') return value
    const search = new TextSearch(this.#results, budget, isStripping)
    const shown = await search.value(value)
    if (search.isIncomplete) this.#reportUnchecked(call, 'the response', result === 'withhold' && !isObserved)
    const found = search.found.filter(({ finding }) => finding.certain)
    if (found.length === 0) return shown
    const what = shown === value ? '' : 'removed: '
    call.addFinding({
      ...findingOf('text_attack', `${what}${summaryOf(found)}`),
      isLate: true,
      ruling: result === 'withhold' ? 'deny' : 'report',
    })
    this.#meter?.count('svc_text_findings_total', found.length)
    if (shown !== value) this.#meter?.count('svc_text_stripped_total')
    return shown
  }

  async withheld(
    call: Call,
    page: DefinitionPage,
    names?: ReviewedNames,
  ): Promise<ReadonlySet<ReceivedDefinition>> {
    const found = await this.#definitions.attacksIn(call.target.server, page, names)
    if (found.length === 0) return nothing
    const isWithholding = this.#effects.definition === 'withhold' && call.get(verdict)?.mode !== 'observe'
    const definitions = page.definitions()
    const attacks = found.flatMap(({ index }) => definitions[index] ?? [])
    this.#meter?.count('svc_text_findings_total', found.length)
    const isWithheld = (place: number) => isWithholding && found[place]?.isCertain === true
    const withheld = attacks.filter((_, place) => isWithheld(place))
    this.#meter?.count('svc_text_withheld_total', withheld.length)
    for (const [place, { kind, name }] of attacks.slice(0, MAX_LISTED).entries()) {
      const what = `${isWithheld(place) ? 'withheld: ' : ''}${kind} ${name.slice(0, 128)}: ${found[place]?.summary}`
      call.addFinding({ ...findingOf('text_attack', what), isLate: true, ruling: 'report' })
    }
    return withheld.length === 0 ? nothing : new Set(withheld)
  }

  learn(server: string, shown: readonly ReceivedDefinition[], names: ReviewedNames): void {
    this.#definitions.learn(server, shown, names)
  }

  /** The definitions in a result of the protocol were judged before. */
  async #inOthers(result: Fields, inResult: (value: unknown) => Promise<unknown>): Promise<unknown> {
    const members = Object.entries(result)
    const others = Object.fromEntries(members.filter((member) => !hasDefinitions(member)))
    const shown = await inResult(others)
    if (shown === others || !isJsonObject(shown)) return result
    return { ...Object.fromEntries(members.filter(hasDefinitions)), ...shown }
  }

  #reportUnchecked(call: Call, what: string, isDenied: boolean): void {
    this.#meter?.count('svc_text_unchecked_total')
    const finding = findingOf(
      'text_unchecked',
      `${what}: a part takes too long, or is too deep, to be checked`,
    )
    call.addFinding({ ...finding, isLate: true, ruling: isDenied ? 'deny' : 'report' })
  }
}

/** Findings of one list that are recorded. */
const MAX_LISTED = 20

/** The methods whose results are lists of definitions, and handshakes. */
const describing: ReadonlySet<string> = new Set([
  'initialize',
  'server/discover',
  'tools/list',
  'prompts/list',
  'resources/list',
  'resources/templates/list',
])

const listMembers: ReadonlySet<string> = new Set(['tools', 'prompts', 'resources', 'resourceTemplates'])

/** Whether a member of a result has definitions. */
function hasDefinitions([name, value]: readonly [string, unknown]): boolean {
  return listMembers.has(name) ? Array.isArray(value) : name === 'instructions' && typeof value === 'string'
}

function findingOf(reason: (typeof textReasons)[number], detail: string): Finding {
  return { reason, stage: 'protections', level: 'gateway', detail }
}

/** The protection `text`: attacks on the model in what servers say, and secrets in what the model sends. */
export const text = defineProtection({
  schema: textSchema,
  reasons: [...textReasons],
  provides: [definitionFilter, definitionTexts, responseChange],
  metrics: {
    svc_text_findings_total: {
      kind: 'counter',
      help: 'Places in definitions, responses and arguments that a rule on texts found.',
    },
    svc_text_stripped_total: { kind: 'counter', help: 'Responses from which text was removed.' },
    svc_text_withheld_total: { kind: 'counter', help: 'Definitions that were withheld for their text.' },
    svc_text_unchecked_total: {
      kind: 'counter',
      help: 'Calls with text that was too long or too deep to be checked.',
    },
  },
  configure(settings, preset) {
    if (settings === undefined && preset === undefined) return undefined
    const config = textConfig(settings, preset)
    return {
      create: ({ container }) => new TextStage(config, resolveOptional(container, tokens.Meter)),
    }
  },
})
