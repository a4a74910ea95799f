// Lists and handshakes: which definitions have text that attacks the model.
import { createHash } from 'node:crypto'
import type { DefinitionPage, ReceivedDefinition } from '@svc/core'
import { isJsonObject, stringifyJson } from '@svc/core/json'
import { BoundedMap } from '@svc/core/store'
import { CachedPages, maxKeptFindings } from '../shared/cached-pages.js'
import type { ReviewedNames } from '../shared/definition-texts.js'
import { ReadingBudget } from '../shared/reading-budget.js'
import { TextScanner } from './scan.js'
import { KnownTools, type Shadowing } from './shadowing.js'
import { type PlacedFinding, TextSearch } from './texts.js'

/** Definitions whose findings are kept, as pages that change have most of them again. */
const MAX_KEPT = 10_000
/** Definitions of one page after which other calls have their turn. */
const AT_ONCE = 250

export interface DefinitionFindings {
  readonly isCertain: boolean
  /** The rules and places, for people. */
  readonly summary: string
}

const NOTHING: DefinitionFindings = { isCertain: false, summary: '' }

/** A definition of a page that attacks the model, by its place. */
interface FoundDefinition extends DefinitionFindings {
  readonly index: number
}

interface FoundInPage {
  readonly basis: unknown
  readonly found: readonly FoundDefinition[]
}

export class DefinitionTexts {
  #scanner: TextScanner
  #shadowing: boolean
  #hasLocked = false
  readonly #known = new KnownTools()
  readonly #kept = new BoundedMap<string, DefinitionFindings>(MAX_KEPT)
  readonly #pages = new CachedPages<FoundInPage>()

  constructor(scanner: TextScanner, disabled: ReadonlySet<string>) {
    this.#scanner = scanner
    this.#shadowing = !disabled.has('shadowed-name') || !disabled.has('names-other-tool')
  }

  /** The definitions that are certainly attacks, and those whose names look like others. */
  async attacksIn(
    server: string,
    page: DefinitionPage,
    reviewed?: ReviewedNames,
  ): Promise<readonly FoundDefinition[]> {
    this.#learnLocked(reviewed)
    // The names of other servers' tools may change what this page shadows.
    const before = this.#known.generation
    const kept = this.#pages.get(server, page.sha256, before)
    const basis = reviewed?.basis
    if (kept !== undefined && kept.basis === basis) {
      this.#known.use(server)
      return kept.found
    }
    const definitions = page.definitions()
    const own = new Set(definitions.map(({ name }) => name))
    const found: FoundDefinition[] = []
    const budget = new ReadingBudget()
    for (const [index, definition] of definitions.entries()) {
      if (index > 0 && index % AT_ONCE === 0) await new Promise((resolve) => setImmediate(resolve))
      const findings = await this.#findingsIn(definition.value, budget)
      const shadowing = this.#shadowingOf(server, definition, own, reviewed)
      const all = withShadowing(findings, shadowing)
      if (all.isCertain || shadowing?.rule === 'shadowed-name') found.push({ index, ...all })
    }
    const isSettled = this.#known.generation === before
    if (reviewed === undefined) {
      const attacks = new Set(found.filter(({ isCertain }) => isCertain).map(({ index }) => index))
      this.learn(
        server,
        definitions.filter((_, index) => !attacks.has(index)),
      )
    }
    if (isSettled && !budget.isSpent && found.length <= maxKeptFindings)
      this.#pages.set(server, page.sha256, this.#known.generation, { basis, found })
    return found
  }

  learn(server: string, shown: readonly ReceivedDefinition[], reviewed?: ReviewedNames): void {
    if (!this.#shadowing) return
    const named = shown.filter(({ kind }) => kind === 'tool' || kind === 'prompt')
    this.#known.learn(
      server,
      named.map((one) => [one.name, reviewed?.isReviewed(one) === true]),
    )
  }

  /** Names in the lock file are their servers' before these have sent a list. */
  #learnLocked(reviewed: ReviewedNames | undefined): void {
    if (!this.#shadowing || this.#hasLocked || reviewed === undefined) return
    this.#hasLocked = true
    for (const [server, names] of reviewed.lockedTools)
      this.#known.learn(
        server,
        names.map((name) => [name, true]),
      )
  }

  #shadowingOf(
    server: string,
    definition: ReceivedDefinition,
    own: ReadonlySet<string>,
    reviewed: ReviewedNames | undefined,
  ): Shadowing | undefined {
    const { name, value } = definition
    if (!this.#shadowing || !isJsonObject(value)) return undefined
    const { description } = value
    const texts = typeof description === 'string' ? [description] : []
    return this.#known.shadowing(server, [name, reviewed?.isReviewed(definition) === true], texts, own)
  }

  async #findingsIn(value: unknown, budget: ReadingBudget): Promise<DefinitionFindings> {
    const key = createHash('sha256').update(stringifyJson(value)).digest('base64url')
    const kept = this.#kept.get(key)
    if (kept !== undefined) return kept
    const findings = await findingsIn(value, this.#scanner, budget)
    // The time that others took is no property of the definition.
    if (!budget.isSpent) this.#kept.set(key, findings)
    return findings
  }
}

function withShadowing(findings: DefinitionFindings, found: Shadowing | undefined): DefinitionFindings {
  if (found === undefined) return findings
  const text = `${found.rule} ${found.tool} of ${found.other}`
  const isCertain = found.rule === 'shadowed-name' ? found.isImitation : findings.summary !== ''
  return {
    isCertain: findings.isCertain || isCertain,
    summary: findings.summary === '' ? text : `${findings.summary}, ${text}`,
  }
}

async function findingsIn(
  value: unknown,
  scanner: TextScanner,
  budget?: ReadingBudget,
): Promise<DefinitionFindings> {
  const search = new TextSearch(scanner, budget)
  await search.value(value)
  const { found, isIncomplete } = search
  if (found.length === 0 && !isIncomplete) return NOTHING
  return {
    // A definition that was not read whole is withheld.
    isCertain: isIncomplete || found.some(({ finding }) => finding.certain),
    summary: isIncomplete ? 'too long to be checked' : summaryOf(found),
  }
}

let all: TextScanner | undefined

/** The findings of all rules in a definition, whatever the policy does with them. */
export function definitionFindings(value: unknown): Promise<DefinitionFindings> {
  all ??= new TextScanner('definition')
  return findingsIn(value, all)
}

const MAX_NAMED = 5

/** Rule ids and places; never the text, which may be a secret. */
export function summaryOf(found: readonly PlacedFinding[]): string {
  const named = new Set(
    found.map(({ pointer, finding: { rule, encoding } }) => {
      const how = encoding === undefined ? '' : ` (${encoding})`
      return `${rule.id}${how} at ${pointer.length > 120 ? `${pointer.slice(0, 119)}…` : pointer || '/'}`
    }),
  )
  const more = named.size > MAX_NAMED ? ` and ${named.size - MAX_NAMED} more` : ''
  return `${[...named].slice(0, MAX_NAMED).join(', ')}${more}`
}
