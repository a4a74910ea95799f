// Lists and handshakes: which definitions have text that attacks the model.
import { createHash } from 'node:crypto'
import { isJsonObject } from '@svc/core/json'
import { BoundedMap } from '@svc/core/store'
import { TextScanner } from './scan.js'
import { KnownTools } from './shadowing.js'
import { type PlacedFinding, TextSearch } from './texts.js'

type Fields = Readonly<Record<string, unknown>>

const lists = [
  { member: 'tools', kind: 'tool', name: 'name' },
  { member: 'prompts', kind: 'prompt', name: 'name' },
  { member: 'resources', kind: 'resource', name: 'uri' },
  { member: 'resourceTemplates', kind: 'template', name: 'uriTemplate' },
] as const

/** Definitions whose findings are kept, as lists repeat. */
const MAX_KEPT = 20_000
/** Definitions of one list after which other calls have their turn. */
const AT_ONCE = 250

export interface DefinitionFindings {
  readonly isCertain: boolean
  /** For people: rules and places. */
  readonly summary: string
}

const NOTHING: DefinitionFindings = { isCertain: false, summary: '' }

/** A definition of a list, or the instructions. */
export interface FoundDefinition extends DefinitionFindings {
  readonly kind: string
  readonly name: string
}

export class DefinitionTexts {
  #scanner: TextScanner
  #shadowing: boolean
  readonly #known = new KnownTools()
  readonly #kept = new BoundedMap<string, DefinitionFindings>(MAX_KEPT)

  constructor(scanner: TextScanner, disabled: ReadonlySet<string>) {
    this.#scanner = scanner
    this.#shadowing = !disabled.has('shadowed-name') || !disabled.has('names-other-tool')
  }

  /** The result without the definitions that are certainly attacks, if `isWithholding`; the same one if none is removed. */
  async filter(
    server: string,
    result: Fields,
    isWithholding: boolean,
    found: (definition: FoundDefinition) => void,
  ): Promise<Fields> {
    let shown = result
    for (const { member, kind, name: nameMember } of lists) {
      const entries: unknown = result[member]
      if (!Array.isArray(entries)) continue
      const kept = await this.#entries(server, entries, nameMember, (name, findings) => {
        found({ kind, name, ...findings })
        return !(isWithholding && findings.isCertain)
      })
      if (kept.length < entries.length) shown = { ...shown, [member]: kept }
    }
    const { instructions, ...others } = shown
    if (typeof instructions !== 'string') return shown
    const findings = await this.#findingsIn(instructions)
    if (findings.summary === '') return shown
    found({ kind: 'instructions', name: '', ...findings })
    return isWithholding && findings.isCertain ? others : shown
  }

  async #entries(
    server: string,
    entries: readonly unknown[],
    nameMember: string,
    mayShow: (name: string, findings: DefinitionFindings) => boolean,
  ): Promise<readonly unknown[]> {
    const names = entries.flatMap((entry) => nameOf(entry, nameMember) ?? [])
    const own = new Set(names)
    const kept: unknown[] = []
    for (const [index, entry] of entries.entries()) {
      if (index > 0 && index % AT_ONCE === 0) await new Promise((resolve) => setImmediate(resolve))
      const name = nameOf(entry, nameMember) ?? ''
      const findings = this.#withShadowing(server, name, entry, own, await this.#findingsIn(entry))
      if (findings.summary === '' || mayShow(name, findings)) kept.push(entry)
    }
    if (nameMember === 'name' && this.#shadowing) this.#known.learn(server, names)
    return kept
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

function nameOf(entry: unknown, member: string): string | undefined {
  const name = isJsonObject(entry) ? entry[member] : undefined
  return typeof name === 'string' ? name : undefined
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
