// Looks for attacks on the model in what servers say, and for secrets and disguised commands in what the model sends.
import {
  after,
  type Call,
  type CallRequest,
  type Finding,
  type MaybePromise,
  type Meter,
  type Next,
  type Outcome,
  responseChange,
  type Stage,
  verdict,
} from '@svc/core'
import { isJsonObject } from '@svc/core/json'
import { type ResponseRewriter, rewriteOutcome } from '@svc/core/response'
import type { TextConfig } from './config.js'
import { DefinitionTexts, summaryOf } from './definitions.js'
import { TextScanner } from './scan.js'
import { OVERLAP, TextSearch } from './texts.js'

/** The reasons of findings: text that attacks the model; a secret that leaves; a command that is disguised. */
export const textReasons = [
  'text_attack',
  'secret_in_arguments',
  'disguised_command',
  'personal_data_in_arguments',
] as const

const reasonOfClass: Readonly<Record<string, (typeof textReasons)[number]>> = {
  secret: 'secret_in_arguments',
  command: 'disguised_command',
  personal: 'personal_data_in_arguments',
}

export class TextStage implements Stage {
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
    return after(call.request(), (request) =>
      after(this.#checkArguments(call, request), () =>
        after(next(), (outcome) => this.#checked(call, request, outcome)),
      ),
    )
  }

  async explain(call: Call, next: Next, say: (line: string) => void): Promise<Outcome> {
    const request = await call.request()
    const before = call.findings.length
    await this.#checkArguments(call, request)
    const found = call.findings.slice(before)
    for (const { reason, detail } of found) say(`${reason}: ${detail}`)
    if (found.length === 0) say('text: nothing is found in the arguments')
    return next()
  }

  /** Of a protocol's message too: the client's response to a server, or a method that is not known, can have a secret. */
  #checkArguments(call: Call, { args, params }: CallRequest): MaybePromise<void> {
    if (this.#effects.argument === 'off') return
    return this.#searchArguments(call, params === undefined ? args : { arguments: args, params })
  }

  async #searchArguments(call: Call, value: unknown): Promise<void> {
    const search = new TextSearch(this.#arguments)
    await search.value(value)
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
    if (isChanging && !isObserved && call.get(responseChange) === undefined) call.set(responseChange, true)
    return rewriteOutcome(call, request, outcome, this.#rewriter(call, isStripping, isObserved))
  }

  #rewriter(call: Call, isStripping: boolean, isObserved: boolean): ResponseRewriter {
    const { result } = this.#effects
    const inResult = (value: unknown): Promise<unknown> =>
      this.#inResult(call, value, isStripping, isObserved)
    return {
      result: (value, method) =>
        isJsonObject(value) && method !== null && describing.has(method)
          ? this.#inDefinitions(call, value, isObserved, inResult)
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
        return isStripping ? '[removed: too long to be checked]' : undefined
      },
      spansEvents: false,
      context: OVERLAP,
    }
  }

  async #inResult(call: Call, value: unknown, isStripping: boolean, isObserved: boolean): Promise<unknown> {
    const { result } = this.#effects
    if (result === 'off') return value
    const search = new TextSearch(this.#results, isStripping)
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

  async #inDefinitions(
    call: Call,
    result: Fields,
    isObserved: boolean,
    inResult: (others: Fields) => Promise<unknown>,
  ): Promise<Fields> {
    const { definitions, others } = parted(result)
    const judged = await inResult(others)
    const shownOthers = isJsonObject(judged) ? judged : {}
    if (this.#effects.definition === 'off')
      return shownOthers === others ? result : { ...shownOthers, ...definitions }
    const isWithholding = this.#effects.definition === 'withhold' && !isObserved
    let count = 0
    const shown = await this.#definitions.filter(call.target.server, definitions, isWithholding, (found) => {
      if (!found.isCertain) return
      this.#meter?.count('svc_text_findings_total')
      if (isWithholding) this.#meter?.count('svc_text_withheld_total')
      if (++count > MAX_LISTED) return
      const what = `${isWithholding ? 'withheld: ' : ''}${found.kind} ${found.name.slice(0, 128)}: ${found.summary}`
      call.addFinding({ ...findingOf('text_attack', what), isLate: true, ruling: 'report' })
    })
    return shown === definitions && shownOthers === others ? result : { ...shownOthers, ...shown }
  }

  #reportUnchecked(call: Call, what: string, isDenied: boolean): void {
    this.#meter?.count('svc_text_unchecked_total')
    const finding = findingOf('text_attack', `${what}: a part is too long or too deep to be checked`)
    call.addFinding({ ...finding, isLate: true, ruling: isDenied ? 'deny' : 'report' })
  }
}

/** Findings of one list that are recorded. */
const MAX_LISTED = 20

type Fields = Readonly<Record<string, unknown>>

/** The methods whose results are lists of definitions, and handshakes. */
const describing: ReadonlySet<string> = new Set([
  'initialize',
  'server/discover',
  'tools/list',
  'prompts/list',
  'resources/list',
  'resources/templates/list',
])

const lists: ReadonlySet<string> = new Set(['tools', 'prompts', 'resources', 'resourceTemplates'])

/** The members that are definitions, and the others. */
function parted(result: Fields): { readonly definitions: Fields; readonly others: Fields } {
  const isDefinition = ([name, value]: [string, unknown]): boolean =>
    lists.has(name) ? Array.isArray(value) : name === 'instructions' && typeof value === 'string'
  const members = Object.entries(result)
  return {
    definitions: Object.fromEntries(members.filter(isDefinition)),
    others: Object.fromEntries(members.filter((member) => !isDefinition(member))),
  }
}

function findingOf(reason: (typeof textReasons)[number], detail: string): Finding {
  return { reason, stage: 'protections', level: 'gateway', detail }
}
