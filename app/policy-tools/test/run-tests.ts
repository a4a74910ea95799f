// Runs the test files of one or several policies.
import { readFile } from 'node:fs/promises'
import { basename, dirname, relative, resolve } from 'node:path'
import { policyTokens, resolveOptional, type SectionEntry } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { type Diagnostic, locateInText, mistakeAt, sortedByPosition } from '@svc/core/policy'
import type { Policy } from '../../policy/config.js'
import { policyEntries } from '../judge/policy-entries.js'
import { type CaseResult, runCase } from './run-case.js'
import { readTestFile } from './test-file.js'

/** An entry of a policy, and where it is written. */
export interface PlacedEntry extends SectionEntry {
  readonly file: string
  readonly line: number | undefined
}

export interface FileResult {
  readonly file: string
  readonly cases: readonly CaseResult[]
}

/** The tests of one policy. */
export interface PolicyTests {
  readonly policy: string
  readonly files: readonly FileResult[]
  readonly counts: readonly CoverageCount[]
  readonly percent: number
  /** The rules of the policy, for their places. */
  readonly rules: readonly PlacedEntry[]
  readonly neverApplied: readonly PlacedEntry[]
}

export interface TestSettings {
  readonly env: Readonly<Record<string, string | undefined>>
  /** In place of the policies that the files name. */
  readonly policy: string | undefined
  /** Loads a policy, or returns its mistakes. */
  load(file: string): Promise<{ readonly policy: Policy } | { readonly mistakes: readonly Diagnostic[] }>
}

interface OpenPolicy {
  readonly file: string
  readonly policy: Policy
  readonly coverage: Coverage
  readonly files: FileResult[]
}

/** The results, or every mistake that keeps a test from running. */
export async function runTests(
  files: readonly string[],
  settings: TestSettings,
): Promise<{ readonly results: readonly PolicyTests[]; readonly mistakes: readonly Diagnostic[] }> {
  const open = new Map<string, OpenPolicy | readonly Diagnostic[]>()
  const mistakes: Diagnostic[] = []
  const todo: (() => Promise<void>)[] = []
  for (const file of files) {
    let text: string
    try {
      text = await readFile(file, 'utf8')
    } catch (error) {
      mistakes.push(mistakeAt({ file }, '', `cannot be read: ${messageOf(error)}`))
      continue
    }
    const read = readTestFile(text, file, settings.env)
    mistakes.push(...read.mistakes)
    if (read.mistakes.length > 0) continue
    const policyFile = settings.policy ?? policyOf(file, read.policy)
    let tested = open.get(resolve(policyFile))
    if (tested === undefined) {
      tested = await openPolicy(policyFile, settings)
      open.set(resolve(policyFile), tested)
      if (!('policy' in tested)) mistakes.push(...tested)
    }
    if (!('policy' in tested)) continue
    const { policy, coverage, files: done } = tested
    const { cases, mistakes: found } = read.casesFor({
      servers: Object.keys(policy.host.targets),
      reasons: resolveOptional(policy.container, policyTokens.reasons) ?? [],
    })
    mistakes.push(...found)
    const run = {
      policy,
      baseDir: dirname(resolve(policyFile)),
      env: settings.env,
      applied: coverage.applied,
    }
    todo.push(async () => {
      const results: CaseResult[] = []
      for (const one of cases) results.push(await runCase(one, run))
      done.push({ file, cases: results })
    })
  }
  if (mistakes.length > 0) return { results: [], mistakes: sortedByPosition(mistakes) }
  for (const run of todo) await run()
  const tested = [...open.values()].flatMap((one) => ('policy' in one ? one : []))
  return { results: await Promise.all(tested.map(resultOf)), mistakes }
}

/** `NAME.test.yaml` tests the `NAME.yaml` beside it. */
function policyOf(file: string, named: string | undefined): string {
  const name = named ?? basename(file).replace(/\.test(?=\.ya?ml$)/, '')
  const path = resolve(dirname(file), name)
  const shown = relative(process.cwd(), path)
  return shown.startsWith('..') ? path : shown
}

async function openPolicy(file: string, settings: TestSettings): Promise<OpenPolicy | readonly Diagnostic[]> {
  const loaded = await settings.load(file)
  if (!('policy' in loaded)) return loaded.mistakes
  const { policy } = loaded
  return { file, policy, coverage: new Coverage(policyEntries(policy)), files: [] }
}

async function resultOf({ file, coverage, files }: OpenPolicy): Promise<PolicyTests> {
  const locate = locateInText(await readFile(file, 'utf8'), file)
  const placed = (entry: SectionEntry) => ({ ...entry, file, line: locate(entry.path).origin.line })
  const { counts, percent } = coverage
  const rules = coverage.rules.map(placed)
  const neverApplied = coverage.neverApplied.map(placed)
  return { policy: file, files, counts, percent, rules, neverApplied }
}

/** Counts the entries of a policy that applied to a tested call, and those that never did. */
export interface CoverageCount {
  readonly kind: SectionEntry['kind']
  readonly applied: number
  readonly total: number
}

const kinds = ['rule', 'plan', 'pattern'] as const

export class Coverage {
  readonly #all: ReadonlyMap<string, SectionEntry>
  readonly #applied = new Set<string>()

  constructor(entries: readonly SectionEntry[]) {
    this.#all = new Map(entries.map((entry) => [keyOf(entry), entry]))
  }

  readonly applied = (entry: SectionEntry): void => {
    this.#applied.add(keyOf(entry))
  }

  /** The counts of the kinds that the policy has. */
  get counts(): CoverageCount[] {
    return kinds.flatMap((kind) => {
      const entries = [...this.#all.values()].filter((entry) => entry.kind === kind)
      const applied = entries.filter((entry) => this.#applied.has(keyOf(entry))).length
      return entries.length === 0 ? [] : [{ kind, applied, total: entries.length }]
    })
  }

  get rules(): SectionEntry[] {
    return [...this.#all.values()].filter(({ kind }) => kind === 'rule')
  }

  get neverApplied(): SectionEntry[] {
    return [...this.#all].flatMap(([key, entry]) => (this.#applied.has(key) ? [] : entry))
  }

  /** The share of all entries, rounded down; 100 for a policy without any. */
  get percent(): number {
    const total = this.#all.size
    return total === 0 ? 100 : Math.floor((100 * (total - this.neverApplied.length)) / total)
  }
}

function keyOf({ path }: SectionEntry): string {
  return JSON.stringify(path)
}
