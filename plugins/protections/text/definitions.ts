// Lists and handshakes: which definitions have text that attacks the model.
import { createHash } from 'node:crypto'
import type { DefinitionPage } from '@svc/core'
import { isJsonObject } from '@svc/core/json'
import { BoundedMap } from '@svc/core/store'
import { KeptPages, maxKeptFindings } from '../shared/kept-pages.js'
import { TextScanner } from './scan.js'
import { KnownTools } from './shadowing.js'
import { type PlacedFinding, TextSearch } from './texts.js'

/** Definitions whose findings are kept, as pages that change have most of them again. */
const MAX_KEPT = 10_000
/** Definitions of one page after which other calls have their turn. */
const AT_ONCE = 250

export interface DefinitionFindings {
  readonly isCertain: boolean
  /** For people: rules and places. */
  readonly summary: string
}

const NOTHING: DefinitionFindings = { isCertain: false, summary: '' }

/** A definition of a page that certainly attacks the model, by its place. */
export interface FoundDefinition {
  readonly index: number
  readonly summary: string
}

export class DefinitionTexts {
  #scanner: TextScanner
  #shadowing: boolean
  readonly #known = new KnownTools()
  readonly #kept = new BoundedMap<string, DefinitionFindings>(MAX_KEPT)
  readonly #pages = new KeptPages<readonly FoundDefinition[]>()

  constructor(scanner: TextScanner, disabled: ReadonlySet<string>) {
    this.#scanner = scanner
    this.#shadowing = !disabled.has('shadowed-name') || !disabled.has('names-other-tool')
  }

  /** The definitions that are certainly attacks. */
  async attacksIn(server: string, page: DefinitionPage): Promise<readonly FoundDefinition[]> {
    // What the tools of other servers are called may change what this page shadows.
    const before = this.#known.generation
    const kept = this.#pages.get(server, page.sha256, before)
    if (kept !== undefined) {
      this.#known.use(server)
      return kept
    }
    const definitions = page.definitions()
    const names = definitions.flatMap(({ kind, name }) =>
      kind === 'tool' || kind === 'prompt' ? [name] : [],
    )
    const own = new Set(definitions.map(({ name }) => name))
    const found: FoundDefinition[] = []
    for (const [index, { name, value }] of definitions.entries()) {
      if (index > 0 && index % AT_ONCE === 0) await new Promise((resolve) => setImmediate(resolve))
      const { isCertain, summary } = this.#withShadowing(
        server,
        name,
        value,
        own,
        await this.#findingsIn(value),
      )
      if (isCertain) found.push({ index, summary })
    }
    const isSettled = this.#known.generation === before
    if (this.#shadowing) this.#known.learn(server, names)
    if (isSettled && found.length <= maxKeptFindings)
      this.#pages.set(server, page.sha256, this.#known.generation, found)
    return found
  }

  #withShadowing(
    server: string,
    name: string,
    entry: unknown,
    own: ReadonlySet<string>,
    findings: DefinitionFindings,
  ): DefinitionFindings {
    if (!this.#shadowing || !isJsonObject(entry)) return findings
    const { description } = entry
    const found = this.#known.shadowing(
      server,
      name,
      typeof description === 'string' ? [description] : [],
      own,
    )
    if (found === undefined) return findings
    const text = `${found.rule} ${found.tool} of ${found.other}`
    return {
      isCertain: findings.isCertain || found.rule === 'shadowed-name' || findings.summary !== '',
      summary: findings.summary === '' ? text : `${findings.summary}, ${text}`,
    }
  }

  async #findingsIn(value: unknown): Promise<DefinitionFindings> {
    const key = createHash('sha256').update(JSON.stringify(value)).digest('base64url')
    const kept = this.#kept.get(key)
    if (kept !== undefined) return kept
    const findings = await findingsIn(value, this.#scanner)
    this.#kept.set(key, findings)
    return findings
  }
}

async function findingsIn(value: unknown, scanner: TextScanner): Promise<DefinitionFindings> {
  const search = new TextSearch(scanner)
  await search.value(value)
  const { found, isIncomplete } = search
  if (found.length === 0 && !isIncomplete) return NOTHING
  return {
    // What was not read is not shown.
    isCertain: isIncomplete || found.some(({ finding }) => finding.certain),
    summary: isIncomplete ? 'too long to be checked' : summaryOf(found),
  }
}

let all: TextScanner | undefined

/** What all rules find in a definition, whatever the policy does with it. */
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
